"""The rules, one file per area; envcheck/lint/rule_table.py lists all."""

"""The rules, a file for each area; envcheck/lint/table.py is the list of all."""

"""The types of the linter that vendors' rules use."""

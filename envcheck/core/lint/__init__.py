"""The types of lint that vendors' rules use."""

"""Inputs that the user names and that may never end."""

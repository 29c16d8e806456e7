"""Checks of the accelerators: presence, health, use, numbering and links."""

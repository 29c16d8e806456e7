"""Exceptions that no catalogue entry knows: their form, and the package in which they were raised."""

"""Checks of driver, toolkit, Python and packages, and whether their versions belong together."""

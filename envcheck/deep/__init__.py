"""Tests that work on the cards themselves, for `envcheck doctor --deep`: measured in child processes, judged here.

`program.py` is the one file that knows paddle and torch; it runs in the recipe's Python and is never imported.
"""

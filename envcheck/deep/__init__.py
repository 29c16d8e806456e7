"""Tests that work on the cards themselves, for `envcheck doctor --deep`: measured in child processes, judged here.

`program.py` and the file of its framework, `paddle_kit.py` or `torch_kit.py`, run in the recipe's Python and are never
imported here.
"""

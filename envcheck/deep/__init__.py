"""Hardware tests for `envcheck doctor --deep`: measured in child processes, evaluated here.

`program.py` and the module of its framework, `paddle_kit.py` or `torch_kit.py`, run in the recipe's Python and are
never imported here.
"""

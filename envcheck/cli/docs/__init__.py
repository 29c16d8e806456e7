"""The generators of docs/: a module for each page at most.  Run `python -m envcheck.cli.docs` in the checkout."""

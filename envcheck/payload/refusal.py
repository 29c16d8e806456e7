"""Prints why envcheck.pyz cannot start.  Every Python version must be able to parse this file and those that it
imports."""

import json
import sys

from envcheck.core.version import SCHEMA_VERSION


def exit_with_refusal(message, next_step):  # type: (str, str) -> None
    """Exit with code 2, and print a JSON document if --json was given."""
    sys.stderr.write("envcheck: " + message + "\n  next: " + next_step + "\n")
    if "--json" in sys.argv:
        document = {"schema": SCHEMA_VERSION, "error": message, "exit_code": 2, "next": next_step}
        sys.stdout.write(json.dumps(document, indent=1, sort_keys=True) + "\n")
    sys.exit(2)

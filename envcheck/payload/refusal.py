"""How envcheck.pyz says that it cannot begin.  Any Python must be able to read this file, and those that it imports."""

import json
import sys

from envcheck.core.version import SCHEMA_VERSION


def refuse(message, next_step):  # type: (str, str) -> None
    """Ends with exit code 2, and with the document where one was asked for."""
    sys.stderr.write("envcheck: " + message + "\n  next: " + next_step + "\n")
    if "--json" in sys.argv:
        document = {"schema": SCHEMA_VERSION, "error": message, "exit_code": 2, "next": next_step}
        sys.stdout.write(json.dumps(document, indent=1, sort_keys=True) + "\n")
    sys.exit(2)

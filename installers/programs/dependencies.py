"""Print one line of JSON: the requirements of all installed packages, and the editable ones in the given folders.

Run with -c by the environment's own Python, so it must be self-contained and work with 3.8.  Arguments: the folders.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import distributions
from urllib.parse import urlsplit
from urllib.request import url2pathname

folders = tuple(os.path.realpath(folder) + os.sep for folder in sys.argv[1:])
requires = {}
editable = []
for found in distributions():
    name = found.metadata["Name"]
    if not name or name in requires:  # the first one on the path takes effect
        continue
    requires[name] = found.requires or []
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    place = os.path.realpath(url2pathname(urlsplit(origin.get("url", "")).path)) + os.sep
    if origin.get("dir_info", {}).get("editable") and place.startswith(folders):
        editable.append(name)
print("\nENVCHECK " + json.dumps({"requires": requires, "editable": editable}))

"""Print one line of JSON: the version of this Python, its packages, and incomplete installations.

Run with -c by a container's own Python, so it must be self-contained and work with 3.8.
"""

from __future__ import annotations

import json
import os
import platform
import sysconfig
from importlib.metadata import distributions

packages = {}
for found in distributions():
    name = found.metadata["Name"]
    if name and name not in packages:  # the first one on the path takes effect
        packages[name] = found.version
torn = []
for folder in sorted({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")}):
    own = os.listdir(folder) if os.path.isdir(folder) and not folder.startswith("/usr/lib/python3/") else []  # noqa: PTH112, PTH208
    for name in own:  # packages in Debian's own folder have no RECORD
        whole = all(os.path.isfile(os.path.join(folder, name, part)) for part in ("RECORD", "METADATA"))  # noqa: PTH113, PTH118
        if name.startswith("~") or (name.endswith(".dist-info") and not whole):
            torn.append(name[: -len(".dist-info")].rpartition("-")[0] or name)
print("\nENVCHECK " + json.dumps({"python": platform.python_version(), "packages": packages, "torn": torn}))

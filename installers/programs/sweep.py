"""Remove what an interrupted pip left in site-packages: incomplete metadata, and folders renamed to ~NAME.

Run with -c by the Python of an environment or container, so it must be self-contained and work with 3.8.
"""

import os
import shutil
import sysconfig

for folder in sorted({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")}):
    own = os.listdir(folder) if os.path.isdir(folder) and not folder.startswith("/usr/lib/python3/") else []  # noqa: PTH112, PTH208
    for name in own:  # packages in Debian's own folder have no RECORD
        path = os.path.join(folder, name)  # noqa: PTH118
        whole = all(os.path.isfile(os.path.join(path, part)) for part in ("RECORD", "METADATA"))  # noqa: PTH113, PTH118
        if name.startswith("~") or (name.endswith(".dist-info") and not whole):
            shutil.rmtree(path, ignore_errors=True)

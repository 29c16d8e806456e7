"""The installed version of ms-swift, which decides how its command takes a configuration file.

`swift sft --config FILE` until 4.0.4, `swift sft FILE` from 4.1.0 on, which ignores --config.
Source: swift/cli/main.py of these releases.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

SWIFT_WITHOUT_OPTION = 4.1


def find_swift_version(program: str, environment: Mapping[str, str]) -> float:
    """Return MAJOR.MINOR of the ms-swift that has the program in PATH, 0 if it is not known."""
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        return 0.0
    packages = Path(found).resolve().parents[1].glob("lib/python3*/site-packages/ms_swift-*.dist-info")
    names = (re.fullmatch(r"ms_swift-(\d+)\.(\d).*", path.name) for path in packages)
    return max((float(f"{match[1]}.{match[2]}") for match in names if match), default=0.0)

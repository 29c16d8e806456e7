"""The installed version of ms-swift, which decides how its command takes a configuration file.

`swift sft --config FILE` until 4.0.4, `swift sft FILE` from 4.1.0 on, which ignores --config.
Source: swift/cli/main.py of these releases.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

SWIFT_WITHOUT_OPTION = Version("4.1.dev0")


def find_swift_version(program: str, environment: Mapping[str, str]) -> Version | None:
    """Return the version of the ms-swift that has the program in PATH; None if it is not known.

    A program without ms-swift next to it may be the compiler of another language.
    """
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        return None
    packages = Path(found).resolve().parent.parent.glob("lib/python3*/site-packages/ms_swift-*.dist-info")
    return max((version for path in packages if (version := _read_version(path.name)) is not None), default=None)


def _read_version(name: str) -> Version | None:
    try:
        return Version(name.removeprefix("ms_swift-").removesuffix(".dist-info"))
    except InvalidVersion:
        return None

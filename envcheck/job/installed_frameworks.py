"""The frameworks in PATH, on whose release the command of a configuration file depends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from envcheck.core.lint.own_job import InstalledFrameworks

_COMMANDS = ("erniekit", "paddleformers-cli")
_SWIFT = "swift"


def find_installed_frameworks(environment: Mapping[str, str]) -> InstalledFrameworks:
    """Return the frameworks that commands started with these variables find on this host."""
    path = environment.get("PATH", os.defpath)
    commands = frozenset(name for name in _COMMANDS if shutil.which(name, path=path))
    return InstalledFrameworks(commands, _find_swift_version(path))


def _find_swift_version(path: str) -> Version | None:
    """The release of ms-swift that has the program in PATH; None if unknown.

    A program without ms-swift next to it may be the compiler of another language.
    """
    found = shutil.which(_SWIFT, path=path)
    if found is None:
        return None
    packages = Path(found).resolve().parent.parent.glob("lib/python3*/site-packages/ms_swift-*.dist-info")
    return max((version for each in packages if (version := _read_version(each.name)) is not None), default=None)


def _read_version(name: str) -> Version | None:
    try:
        return Version(name.removeprefix("ms_swift-").removesuffix(".dist-info"))
    except InvalidVersion:
        return None

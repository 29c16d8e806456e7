"""Whether the wheels of a lock fit the Python and the C library that an image is documented with.  Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from envcheck.core.messages import NOTHING, Message, _
from installers.locks.lockfile import LockedWheel

# Names of platform tags before PEP 600, and the glibc that each requires.
LEGACY_TAGS = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}

NO_GLIBC = (sys.maxsize,)  # newer than all


def read_glibc(tag: str) -> tuple[int, ...]:
    """Return the glibc that a platform tag requires, () for none; the architecture in it is ignored.

    A wheel for another C library (musllinux) or system requires one that no image has.
    """
    legacy = next((version for name, version in LEGACY_TAGS.items() if tag == name or tag.startswith(f"{name}_")), ())
    found = re.match(r"manylinux_(\d+)_(\d+)", tag)
    if found or legacy:
        return legacy or tuple(map(int, found.groups() if found else ()))
    return () if tag == "any" or tag.startswith("linux_") else NO_GLIBC


def explain_misfit(wheels: Iterable[LockedWheel], contents: Mapping[str, str]) -> Message:
    """Return why the first unfit wheel cannot be installed in an image with these versions; NOTHING if all fit.

    A version that is not documented accepts every wheel.
    """
    python, glibc = _read_pair(contents.get("python", "")), _read_pair(contents.get("glibc", ""))
    for wheel in wheels:
        try:
            tags = parse_wheel_filename(wheel.file)[3]
        except InvalidWheelFilename:
            continue
        for_python = [tag for tag in tags if not python or _fits_python(tag, python)]
        if not for_python:
            return _(
                "{file} of the lock is not for Python {python}, which the image contains",
                file=wheel.file,
                python=contents["python"],
            )
        if glibc and not any(read_glibc(tag.platform) <= glibc for tag in for_python):
            if all(read_glibc(tag.platform) == NO_GLIBC for tag in for_python):
                return _("{file} of the lock is not for Linux with glibc, which the image contains", file=wheel.file)
            return _(
                "{file} of the lock needs a newer glibc than {glibc}, which the image contains",
                file=wheel.file,
                glibc=contents["glibc"],
            )
    return NOTHING


def _read_pair(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


def _fits_python(tag: Tag, python: tuple[int, ...]) -> bool:
    found = re.fullmatch(r"(py|cp)(\d)(\d*)", tag.interpreter)
    if not found or int(found[2]) != python[0]:
        return False
    minor = int(found[3]) if found[3] else 0
    return minor == python[1] if tag.interpreter.startswith("cp") and tag.abi != "abi3" else minor <= python[1]

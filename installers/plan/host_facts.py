"""Facts of this host that decide whether an environment can be made: the Python for it, the room, the rights."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from installers.recipes.recipe import Library


@dataclass(frozen=True)
class HostFacts:
    """`interpreter` is the Python for a new environment; `in_the_way` a file where a folder would have to be.

    `lacking` names the system libraries that were asked for and that the loader does not find.  Of the folders that are
    to be written, `of_root` are those in which root alone may write, `closed` those in which this user may not.
    """

    interpreter: str
    python: str
    makes_environments: bool
    free_bytes: int | None
    writable: bool
    in_the_way: Path | None = None
    lacking: frozenset[str] = frozenset()
    of_root: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()


def read(folder: Path, libraries: Iterable[Library] = (), others: Iterable[str] = ()) -> HostFacts:
    """The host as seen from `folder`, which need not exist yet; `others` are folders that are written as well."""
    near, written = nearest(folder), (str(folder), *others)
    return HostFacts(
        interpreter=getattr(sys, "_base_executable", "") or sys.executable,  # not of the environment envcheck runs in
        python=platform.python_version(),
        makes_environments=_makes_environments(),
        free_bytes=_free(near),
        writable=_is_open(near),
        in_the_way=None if near.is_dir() else near,
        lacking=frozenset(library.name for library in libraries if not _loads(library.name)),
        of_root=frozenset(path for path in written if is_of_root(Path(path))),
        closed=frozenset(path for path in written if not _is_open(nearest(Path(path)))),
    )


def nearest(path: Path) -> Path:
    """It, or the folder above it that is there, as far as this user can see."""
    return next(each for each in (path, *path.absolute().parents) if _is_there(each))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def is_of_root(path: Path) -> bool:
    """Root alone may write there.  One's own home, and where others cannot even go, is no system folder."""
    near = nearest(path).absolute()
    home = os.environ.get("HOME")
    if home and Path(home) in (near, *near.parents):
        return False
    told = near.stat()
    entered = all(above.stat().st_mode & stat.S_IXOTH for above in (near, *near.parents))
    return told.st_uid == 0 and entered and not told.st_mode & (stat.S_IWOTH | stat.S_IWGRP)


def _is_open(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _makes_environments() -> bool:
    """Debian and Ubuntu ship ensurepip in python3-venv only, and their python3 then fails half-way through venv."""
    return all(importlib.util.find_spec(name) for name in ("ensurepip", "venv"))


def _loads(name: str) -> bool:
    """The loader is asked itself: it knows its cache, its folders and LD_LIBRARY_PATH better than any list."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None

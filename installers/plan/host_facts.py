"""Facts of this host that decide whether an environment can be created: Python, disk space, permissions."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from installers.plan.interpreters import Interpreter, read_own
from installers.recipes.recipe import SystemLibrary


@dataclass(frozen=True)
class HostFacts:
    """`interpreter` is the Python for a new environment; `in_the_way` is a file at the place of a needed folder.

    `lacking` are the queried system libraries that the loader does not find.  Of the folders to be written, `of_root`
    are those that only root may write to, `closed` those that this user may not write to.  `chosen` is the interpreter
    with its origin.
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
    chosen: Interpreter | None = None


def read_facts(
    folder: Path,
    libraries: Iterable[SystemLibrary] = (),
    others: Iterable[str] = (),
    interpreter: Interpreter | None = None,
) -> HostFacts:
    """Return the facts for `folder`, which need not exist yet; `others` are further folders to be written.

    `interpreter` is the Python of a new environment, by default the one that runs envcheck.
    """
    near, written = find_nearest(folder), (str(folder), *others)
    python = interpreter or read_own()
    return HostFacts(
        interpreter=python.path,
        python=python.version,
        makes_environments=python.makes_environments,
        free_bytes=_free_bytes(near),
        writable=_is_writable(near),
        in_the_way=None if near.is_dir() else near,
        lacking=frozenset(library.name for library in libraries if not _can_load(library.name)),
        of_root=frozenset(path for path in written if is_root_only(Path(path))),
        closed=frozenset(path for path in written if not _is_writable(find_nearest(Path(path)))),
        chosen=python,
    )


def find_nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that exists and is visible to this user."""
    return next(each for each in (path, *path.absolute().parents) if _is_there(each))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def is_root_only(path: Path) -> bool:
    """Return whether only root may write there; the user's home and private folders of root do not count."""
    near = find_nearest(path).absolute()
    home = os.environ.get("HOME")
    if home and Path(home) in (near, *near.parents):
        return False
    status = near.stat()
    entered = all(above.stat().st_mode & stat.S_IXOTH for above in (near, *near.parents))
    return status.st_uid == 0 and entered and not status.st_mode & (stat.S_IWOTH | stat.S_IWGRP)


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _can_load(name: str) -> bool:
    """Load the library: the loader itself knows its cache, its folders and LD_LIBRARY_PATH."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None

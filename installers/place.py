"""Facts of this host that decide whether an environment can be made: the Python for it, the room, the rights."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """`interpreter` is the Python for a new environment; `in_the_way` a file where a folder would have to be."""

    interpreter: str
    python: str
    makes_environments: bool
    free_bytes: int | None
    writable: bool
    in_the_way: Path | None = None


def read(folder: Path) -> Place:
    """The host as seen from `folder`, which need not exist yet."""
    near = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return Place(
        interpreter=getattr(sys, "_base_executable", "") or sys.executable,  # not of the environment envcheck runs in
        python=platform.python_version(),
        makes_environments=_makes_environments(),
        free_bytes=_free(near),
        writable=os.access(near, os.W_OK | os.X_OK),
        in_the_way=None if near.is_dir() else near,
    )


def _makes_environments() -> bool:
    """Debian and Ubuntu ship ensurepip in python3-venv only, and their python3 then fails half-way through venv."""
    return all(importlib.util.find_spec(name) for name in ("ensurepip", "venv"))


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None

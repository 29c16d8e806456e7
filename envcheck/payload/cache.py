"""Files in the user's cache, each behind its sha256: envcheck.pyz, which takes a second to make, and what it needs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from envcheck.core.home_folder import user_home


def read_or_make(folders: Iterable[Path], make: Callable[[], bytes], prefix: str) -> bytes:
    """What was kept for these sources (by path, size and time) and this Python, else what `make` gives, kept for the
    next time where that can be; one of each `prefix`."""
    name = f"{prefix}{_key(folders)}" if _folder() else ""
    if name and (found := read(name)) is not None:
        return found
    data = make()
    if name:
        write(name, data)
        _remove_others(name, prefix)
    return data


def read(name: str) -> bytes | None:
    """What was kept by this name, undamaged."""
    try:
        digest, _, data = _place(name).read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest().encode() == digest else None


def write(name: str, data: bytes) -> None:
    """Keep it where that can be."""
    with contextlib.suppress(OSError):
        place = _place(name)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        Path(part).replace(place)


def _place(name: str) -> Path:
    """OSError for a user without a home."""
    if (folder := _folder()) is None:
        raise FileNotFoundError(name)
    return folder / name


def _remove_others(name: str, prefix: str) -> None:
    with contextlib.suppress(OSError):
        for other in _place(name).parent.glob(f"{prefix}*"):
            if other.name != name:
                other.unlink()


def _folder() -> Path | None:
    """None for a user without a home."""
    named, home = os.environ.get("XDG_CACHE_HOME"), user_home()
    return Path(named) / "envcheck" if named else home and home / ".cache" / "envcheck"


def _key(folders: Iterable[Path]) -> str:
    known = hashlib.sha256(sys.version.encode())
    for folder in folders:
        for path in sorted(folder.rglob("*")) or [folder]:  # a library may be a single file
            if path.parent.name == "__pycache__" or path.is_dir():
                continue
            stat = path.stat()
            known.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return known.hexdigest()[:32]

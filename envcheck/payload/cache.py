"""Files in the user's cache, stored with their sha256: envcheck.pyz, which takes a second to build, and its parts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from envcheck.core.portable.home_folder import find_user_home


def read_or_make(folders: Iterable[Path], make: Callable[[], bytes], prefix: str) -> bytes:
    """Return the cached result for these sources (path, size and time) and this Python, else the result of `make`.

    The result is cached if possible; only one entry per `prefix` is kept.
    """
    name = f"{prefix}{_compute_key(folders)}" if _find_cache_folder() else ""
    if name and (found := read_entry(name)) is not None:
        return found
    data = make()
    if name:
        write_entry(name, data)
        _remove_others(name, prefix)
    return data


def read_entry(name: str) -> bytes | None:
    """Return a cache entry, or None if it is missing or damaged."""
    try:
        digest, _, data = _locate_entry(name).read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest().encode() == digest else None


def write_entry(name: str, data: bytes) -> None:
    """Write a cache entry; errors are ignored."""
    with contextlib.suppress(OSError):
        place = _locate_entry(name)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        Path(part).replace(place)


def _locate_entry(name: str) -> Path:
    """Return the path of a cache entry; OSError for a user without a home directory."""
    if (folder := _find_cache_folder()) is None:
        raise FileNotFoundError(name)
    return folder / name


def _remove_others(name: str, prefix: str) -> None:
    with contextlib.suppress(OSError):
        for other in _locate_entry(name).parent.glob(f"{prefix}*"):
            if other.name != name:
                other.unlink()


def _find_cache_folder() -> Path | None:
    """Return the cache folder, None for a user without a home directory."""
    named, home = os.environ.get("XDG_CACHE_HOME"), find_user_home()
    return Path(named) / "envcheck" if named else home and home / ".cache" / "envcheck"


def _compute_key(folders: Iterable[Path]) -> str:
    known = hashlib.sha256(sys.version.encode())
    for folder in folders:
        for path in sorted(folder.rglob("*")) or [folder]:  # a library can be a single file
            if path.parent.name == "__pycache__" or path.is_dir():
                continue
            stat = path.stat()
            known.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return known.hexdigest()[:32]

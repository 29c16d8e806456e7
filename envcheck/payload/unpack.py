"""Unpacks envcheck.pyz, and what travels with a command, into the user's cache: whole or not at all.

A folder there is named by the sha256 of what was unpacked.  It is used where every file has its own sum and nobody else
may write; whoever uses it holds a lock, so that no other process removes it.  The standard library of 3.10 is enough.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import importlib.util
import io
import os
import runpy
import shutil
import stat
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from envcheck.payload.refusal import refuse

PYZ, ATTACHMENTS, PART = "pyz", "attachments", "part"
FILE = "envcheck.pyz"  # a copy of the file itself, to be carried on from here
SUMS = ".sums"
DAY_S = 86400


class Unpacked:
    """A folder, locked until it is closed; `is_temporary`: neither the cache nor anybody else keeps it."""

    def __init__(self, path: Path, is_temporary: bool = False) -> None:
        self.path, self.is_temporary = path, is_temporary
        self.lock = (path / SUMS).open("rb")
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self.lock, fcntl.LOCK_SH)

    def close(self) -> None:
        """A temporary one is removed, unless a process that began from it still runs."""
        self.lock.close()
        if self.is_temporary:
            remove(self.path)
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()


def cache_folder() -> Path:
    """The user's; without a home a folder that cannot be made."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "envcheck")  # noqa: PTH111


def find(kind: str, digest: str) -> Unpacked | None:
    """What the cache has, undamaged."""
    place = cache_folder() / _name(kind, digest)
    with contextlib.suppress(OSError):
        found = Unpacked(place)
        if is_intact(place, digest):
            return found
        found.close()
    return None


def is_intact(place: Path, digest: str) -> bool:
    """Each file is the one that was unpacked, and nobody else may write there."""
    try:
        about = place.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            return False
        head, _, listed = (place / SUMS).read_bytes().partition(b"\n")
        pairs = (line.partition(" ") for line in listed.decode().splitlines())
        return head == _head(digest, listed) and all(
            _sum(_read(f"{place}/{name}")) == known for known, _, name in pairs
        )
    except (OSError, UnicodeDecodeError):
        return False


def unpack(kind: str, data: bytes) -> Unpacked:
    """Into the cache, else into a temporary folder; OSError where there is no room."""
    digest = _sum(data)
    name = _name(kind, digest)
    try:
        place = _unpack(cache_folder(), name, data, digest)
        _sweep(cache_folder(), name)
        return Unpacked(place)
    except OSError as err:
        why = err
    for folder in (tempfile.gettempdir(), "/dev/shm"):
        with contextlib.suppress(OSError):
            return Unpacked(_unpack(Path(tempfile.mkdtemp(prefix="envcheck-", dir=folder)), name, data, digest), True)
    raise why


def remove(place: Path) -> None:
    """Unless a process uses it."""
    with contextlib.suppress(OSError), (place / SUMS).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)


def forget() -> None:
    """All that was unpacked here, of other versions, too, but what a command uses."""
    with contextlib.suppress(OSError):
        for path in cache_folder().iterdir():
            remove(path)
        cache_folder().rmdir()


def start(archive: str) -> None:
    """Begin envcheck: `archive` is envcheck.pyz, or the folder that it was unpacked into."""
    folder = Path(archive)
    if folder.is_file():
        data = folder.read_bytes()
        try:
            found = find(PYZ, _sum(data)) or unpack(PYZ, data)
        except OSError as err:
            refuse(f"cannot unpack {archive}: {err}", "set XDG_CACHE_HOME to a folder with 32 MiB free")
        atexit.register(found.close)
        folder = found.path
    for name in [name for name in sys.modules if name.partition(".")[0] == "envcheck"]:
        del sys.modules[name]
    machine = os.uname().machine
    native = [f"{folder}/native/{machine}"] if "CS_GNU_LIBC_VERSION" in os.confstr_names else []
    sys.path[:1] = [*native, str(folder)]
    if importlib.util.find_spec("psutil") is None:
        refuse(
            f"this {FILE} has no psutil for {machine}, and this Python has none",
            "install python3-psutil, or write the file on a machine with a network: envcheck pyz",
        )
    sys.argv[0] = "envcheck"
    runpy.run_module("envcheck", run_name="__main__")


def _name(kind: str, digest: str) -> str:
    return f"{kind}-{digest[:16]}"


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _head(digest: str, listed: bytes) -> bytes:
    return f"{digest} {_sum(listed)}".encode()


def _read(path: str) -> bytes:
    """Faster than pathlib's: there are more than a thousand."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def _unpack(folder: Path, name: str, data: bytes, digest: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part, place = Path(tempfile.mkdtemp(prefix=f"{PART}-", dir=folder)), folder / name
    try:
        listed = "".join(f"{_sum(each)} {file}\n" for file, each in _write(part, name, data)).encode()
        (part / SUMS).write_bytes(_head(digest, listed) + b"\n" + listed)
        if not is_intact(place, digest):
            remove(place)
        try:
            part.rename(place)
        except OSError:
            if not is_intact(place, digest):  # another process may have unpacked the same meanwhile
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place


def _write(part: Path, name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each file, once it is written."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [(file, archive.read(file)) for file in archive.namelist()]
    for file, each in [*files, *([(FILE, data)] if name.startswith(PYZ) else [])]:
        (part / file).parent.mkdir(parents=True, exist_ok=True)
        (part / file).write_bytes(each)
        yield file, each


def _sweep(folder: Path, name: str) -> None:
    """What other versions and killed processes left, after a day, unless a command still runs from it."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.name == name or path.stat().st_mtime > time.time() - DAY_S:
                continue
            if path.name.startswith(f"{PART}-"):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith(name.partition("-")[0] + "-"):
                remove(path)

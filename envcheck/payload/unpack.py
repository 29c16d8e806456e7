"""Unpacks envcheck.pyz and the attachments of a command into the user's cache, completely or not at all.

Each folder is named after the sha256 of its payload.  It is used only if every file has its recorded sum and no other
user can write to it; a process that uses it holds a lock, so that no other process removes it.  This module needs only
the standard library of Python 3.10.
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

from envcheck.payload.refusal import exit_with_refusal

PYZ, ATTACHMENTS, PART = "pyz", "attachments", "part"
FILE = "envcheck.pyz"  # a copy of the file itself, to be sent to further hosts
SUMS = ".sums"
DAY_S = 86400


class UnpackedFolder:
    """An unpacked folder, locked until it is closed; `is_temporary`: it is not in the cache, and removed on close."""

    def __init__(self, path: Path, is_temporary: bool = False) -> None:
        self.path, self.is_temporary = path, is_temporary
        self.lock = (path / SUMS).open("rb")
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self.lock, fcntl.LOCK_SH)

    def close(self) -> None:
        """Release the lock; remove a temporary folder, unless a process started from it is still running."""
        self.lock.close()
        if self.is_temporary:
            remove_folder(self.path)
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()


def cache_folder() -> Path:
    """Return the user's cache folder for envcheck; without a home directory, a path that cannot be created."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "envcheck")  # noqa: PTH111


def find_unpacked(kind: str, digest: str) -> UnpackedFolder | None:
    """Return the unpacked payload in the cache, or None if it is missing or damaged."""
    place = cache_folder() / _name_folder(kind, digest)
    with contextlib.suppress(OSError):
        found = UnpackedFolder(place)
        if is_intact(place, digest):
            return found
        found.close()
    return None


def is_intact(place: Path, digest: str) -> bool:
    """Return whether every file is as it was unpacked, and no other user can write to the folder."""
    try:
        about = place.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            return False
        head, _unused, listed = (place / SUMS).read_bytes().partition(b"\n")
        pairs = (line.partition(" ") for line in listed.decode().splitlines())
        return head == _build_header(digest, listed) and all(
            _hash_data(_read_file(f"{place}/{name}")) == known for known, _unused, name in pairs
        )
    except (OSError, UnicodeDecodeError):
        return False


def unpack_payload(kind: str, data: bytes) -> UnpackedFolder:
    """Unpack into the cache, otherwise into a temporary folder; OSError if there is no space."""
    digest = _hash_data(data)
    name = _name_folder(kind, digest)
    try:
        place = _unpack_into(cache_folder(), name, data, digest)
        _remove_stale(cache_folder(), name)
        return UnpackedFolder(place)
    except OSError as err:
        why = err
    for folder in (tempfile.gettempdir(), "/dev/shm"):
        with contextlib.suppress(OSError):
            return UnpackedFolder(
                _unpack_into(Path(tempfile.mkdtemp(prefix="envcheck-", dir=folder)), name, data, digest), True
            )
    raise why


def remove_folder(place: Path) -> None:
    """Remove the folder, unless a process uses it."""
    with contextlib.suppress(OSError), (place / SUMS).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)


def remove_unused() -> None:
    """Remove everything that was unpacked on this host, of all versions, except what a running command uses."""
    with contextlib.suppress(OSError):
        for path in cache_folder().iterdir():
            remove_folder(path)
        cache_folder().rmdir()


def start_envcheck(archive: str) -> None:
    """Run envcheck from `archive`: envcheck.pyz, or the folder that it was unpacked into."""
    folder = Path(archive)
    if folder.is_file():
        data = folder.read_bytes()
        try:
            found = find_unpacked(PYZ, _hash_data(data)) or unpack_payload(PYZ, data)
        except OSError as err:
            exit_with_refusal(f"cannot unpack {archive}: {err}", "set XDG_CACHE_HOME to a folder with 32 MiB free")
        atexit.register(found.close)
        folder = found.path
    for name in [name for name in sys.modules if name.partition(".")[0] == "envcheck"]:
        del sys.modules[name]
    machine = os.uname().machine
    native = [f"{folder}/native/{machine}"] if "CS_GNU_LIBC_VERSION" in os.confstr_names else []
    sys.path[:1] = [*native, str(folder)]
    if importlib.util.find_spec("psutil") is None:
        exit_with_refusal(
            f"this {FILE} has no psutil for {machine}, and this Python has no psutil either",
            "install python3-psutil, or create the file on a host with network access: envcheck pyz",
        )
    sys.argv[0] = "envcheck"
    runpy.run_module("envcheck", run_name="__main__")


def _name_folder(kind: str, digest: str) -> str:
    return f"{kind}-{digest[:16]}"


def _hash_data(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _build_header(digest: str, listed: bytes) -> bytes:
    return f"{digest} {_hash_data(listed)}".encode()


def _read_file(path: str) -> bytes:
    """Return the content of a file; faster than pathlib, because there are more than a thousand."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def _unpack_into(folder: Path, name: str, data: bytes, digest: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part, place = Path(tempfile.mkdtemp(prefix=f"{PART}-", dir=folder)), folder / name
    try:
        listed = "".join(f"{_hash_data(each)} {file}\n" for file, each in _write_files(part, name, data)).encode()
        (part / SUMS).write_bytes(_build_header(digest, listed) + b"\n" + listed)
        if not is_intact(place, digest):
            remove_folder(place)
        try:
            part.rename(place)
        except OSError:
            if not is_intact(place, digest):  # another process may have unpacked the same payload
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place


def _write_files(part: Path, name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Write the files and yield (name, content) of each."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [(file, archive.read(file)) for file in archive.namelist()]
    for file, each in [*files, *([(FILE, data)] if name.startswith(PYZ) else [])]:
        (part / file).parent.mkdir(parents=True, exist_ok=True)
        (part / file).write_bytes(each)
        yield file, each


def _remove_stale(folder: Path, name: str) -> None:
    """Remove folders of other versions and of killed processes after a day, unless a command still uses them."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.name == name or path.stat().st_mtime > time.time() - DAY_S:
                continue
            if path.name.startswith(f"{PART}-"):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith(name.partition("-")[0] + "-"):
                remove_folder(path)

"""Files on this host: those that the user named, written completely or not at all, and those of targets."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from envcheck.core import process
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import _
from envcheck.core.version import __version__

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_NEXT = _("specify another file")
_LINKS = 40  # the number of links that Linux follows in a path


class LocalFiles:
    """File operations of a target on this host.  Paths are strings; `limit` is the maximum size that is read, in
    characters."""

    limit: ClassVar[int]

    def stop_command(self, argv: Sequence[str]) -> None:
        """Kill the command that another thread is running with these arguments."""
        process.terminate_matching(argv)

    def write_file(self, path: str, content: str) -> None:
        """Write a UTF-8 text file; OSError if that fails."""
        Path(path).write_text(content, encoding="utf-8")

    def read_file(self, path: str) -> str:
        """Return the first `limit` characters of the file, or "" if it cannot be read."""
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                return file.read(self.limit)
        except OSError:
            return ""

    def list_folder(self, folder: str) -> list[str]:
        """Return the sorted names in the folder, or [] if it cannot be read."""
        try:
            return sorted(entry.name for entry in Path(folder).iterdir())
        except OSError:
            return []


def is_folder(path: str) -> bool:
    """Return whether a folder is at the path; False if its own folder may not be searched."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


def may_exist(path: str) -> bool:
    """Return whether something is at the path, also a dangling link, or could be: its folder may not be searched."""
    try:
        Path(path).lstat()
    except PermissionError:
        return True
    except (OSError, ValueError):  # also a text that cannot be a path
        return False
    return True


def recreate_folder(folder: Path) -> str:
    """Delete the folder, create it empty, and return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return str(folder)


def check_writable(path: Path) -> None:
    """Raise UsageError, before the work for it begins, if the file cannot be written to this path."""
    if path.is_dir():  # also the empty path, which means the current folder
        raise UsageError(
            _("cannot write {path}: {what}", path=path, what=_("is a directory")), _("specify a file in that directory")
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(
            _(
                "cannot write {path}: {what}",
                path=path,
                what=_("directory {parent} does not exist", parent=path.absolute().parent),
            ),
            _("mkdir -p {parent}", parent=path.parent),
        )
    special = _is_written_into(path)
    if not (os.access(path, os.W_OK) if special else _takes_files(path.resolve().parent)):
        words = (
            _("cannot write {path}: no write permission", path=path)
            if special
            else _("cannot write {path}: no write permission on the directory", path=path)
        )
        raise UsageError(words, _NEXT)


def _takes_files(folder: Path) -> bool:
    """Return whether a file can be created; the mode does not tell for root, in /proc and on read-only file systems."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as err:
        return err.errno in FULL_DISK  # reported when the size is known


def write_file(path: Path, content: str | bytes, mode: int | None = None, *, is_new: bool = False) -> None:
    """Replace the file in one step; write into what is not a regular file (a pipe, /dev/null) or is open (/dev/stdout).

    `mode` are the permissions; None keeps those of an existing file.  With `is_new` an existing file is an error.
    Raises UsageError if the path takes no file; the OSError of a full disk.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if is_new and (path.exists() or path.is_symlink()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if _is_written_into(path):
            _write_into(path, data)
        else:
            replace_file(path.resolve(), data, mode, is_new=is_new)  # a symbolic link is kept
    except FileExistsError:
        raise UsageError(_("{path} already exists", path=path), _("specify another file")) from None
    except OSError as err:
        if err.errno in FULL_DISK:  # the command line has a next step for a full disk
            raise
        words = _("cannot write {path}: {strerror}", path=path, strerror=describe_os_error(err))
        raise UsageError(words, _NEXT) from None


def _is_written_into(path: Path) -> bool:
    return _find_descriptor(path) is not None or (path.exists() and not path.is_file())


def _find_descriptor(path: Path) -> Path | None:
    """Return the path in /proc/PID/fd to which a link such as /dev/stdout leads; None for other paths.

    Its own target may be a regular file, with earlier lines in it: `-o /dev/stdout >> log`.
    """
    for _unused in range(_LINKS):
        if not path.is_symlink():
            return None
        folder = path.parent.resolve()
        if folder.name == "fd" and folder.is_relative_to("/proc"):
            return folder / path.name
        path = folder / path.readlink()
    return None


def _write_into(path: Path, data: bytes) -> None:
    """Write behind what an open file has already, else from the beginning."""
    place = _find_descriptor(path)
    if place is None:
        path.write_bytes(data)
    elif place.parent == Path("/proc/self/fd").resolve():
        sys.stdout.flush()
        sys.stderr.flush()
        with os.fdopen(os.dup(int(place.name)), "wb") as file:  # at its offset: a new one would begin at 0
            file.write(data)
    else:
        with place.open("ab") as file:
            file.write(data)


def replace_file(place: Path, data: bytes, mode: int | None = None, *, is_new: bool = False) -> None:
    """Write a temporary file and rename it, as `write_file`, but a symbolic link is replaced.  Raises OSError."""
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{place.name[:100]}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if mode is None:
            mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_read_umask()
        Path(name).chmod(mode)
        if is_new:
            _move_new(Path(name), place)
        else:
            Path(name).replace(place)
    finally:
        Path(name).unlink(missing_ok=True)


def _move_new(source: Path, place: Path) -> None:
    """Move a file; unlike a rename it raises FileExistsError if another process made the other one meanwhile."""
    try:
        place.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with place.open("xb") as file:
            file.write(source.read_bytes())


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def save_crash_report(err: BaseException) -> Path:
    """Write version, Python, system, command and traceback of an unexpected exception to a new temporary file, ready to
    paste into an issue, and return its path."""
    head = f"envcheck {__version__}\nPython {sys.version}\n{platform.platform()}\n$ {' '.join(sys.argv)}\n\n"
    with tempfile.NamedTemporaryFile("w", prefix="envcheck-bug-", suffix=".log", delete=False) as log:
        log.write(head + "".join(traceback.format_exception(err)))
    return Path(log.name)

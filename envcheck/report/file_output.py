"""Write a report, a picture or a program to a file, completely or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import _


def check_writable(path: Path) -> None:
    """Raise UsageError, before any check runs, if the report cannot be written to this path."""
    if path.is_dir():  # also the empty path, which means the current folder
        raise UsageError(
            _("{path} is a directory", path=path), _("specify a file in it: {path}", path=path / "report.html")
        )
    if not path.parent.is_dir():
        raise UsageError(
            _("directory {parent} does not exist", parent=path.parent), _("mkdir -p {parent}", parent=path.parent)
        )


def write_file(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Replace the file in one step; write into anything that is not a regular file (a pipe, /dev/null).

    `mode` are the permissions; None keeps those of an existing file.
    Raises UsageError if the path takes no file; the OSError of a full disk.
    """
    data = content.encode() if isinstance(content, str) else content
    place = path.resolve()  # a symbolic link is kept
    try:
        if path.exists() and not path.is_file():  # test the link itself: the target of /dev/stdout is not a path
            path.write_bytes(data)
        else:
            _replace_file(place, data, mode)
    except OSError as err:
        if err.errno in (errno.ENOSPC, errno.EDQUOT):  # the command line has a next step for a full disk
            raise
        raise UsageError(
            _("cannot write {path}: {strerror}", path=path, strerror=describe_os_error(err)),
            _("choose another path with -o"),
        ) from None


def _replace_file(place: Path, data: bytes, mode: int | None) -> None:
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{place.name[:100]}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if mode is None:
            mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_read_umask()
        Path(name).chmod(mode)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

"""A report into a file: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from envcheck.core.errors import UsageError


def check(path: Path) -> None:
    """Refuse, before the machine is asked, a place where no file can be; UsageError says why."""
    if path.is_dir():  # also an empty text, which is the folder that we are in
        raise UsageError(f"{path} is a folder", f"name a file in it: {path / 'report.html'}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", f"mkdir -p {path.parent}")


def write(path: Path, text: str) -> None:
    """The file appears at once, complete; what is no plain file (a pipe, /dev/null) is written to, not replaced."""
    place = path.resolve()  # a link stays one
    try:
        if path.exists() and not path.is_file():  # asked of the link: /dev/stdout leads to a name that is no path
            path.write_text(text, encoding="utf-8", newline="\n")
        else:
            _replace(place, text)
    except PermissionError as err:
        raise UsageError(f"{path} cannot be written: {err.strerror}", "choose another place with -o") from None


def _replace(place: Path, text: str) -> None:
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{place.name[:100]}.", dir=place.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

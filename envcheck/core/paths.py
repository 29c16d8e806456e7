"""Where envcheck keeps what it makes; ENVCHECK_HOME moves all of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.home_folder import DATA, OWN, known_home

NEVER = (errno.ENAMETOOLONG, errno.ELOOP)


def given(text: str, what: str) -> Path:
    """A path that a person wrote, its ~ filled in; `what` names where it was written.  UsageError where it is none."""
    if not text.strip() or "\0" in text:
        raise UsageError(
            f"{what}: {'not a path' if text.strip() else 'an empty path'}", "give a path, or leave it away"
        )
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        who = text.partition("/")[0]
        raise UsageError(f"{what} {text[:200]!r}: there is no home for {who}", "write the whole path") from None
    can_be(str(path), what)
    return path


def can_be(text: str, what: str) -> None:
    """UsageError where no file can ever be: a name too long, links that lead in a circle.  Absent is fine."""
    try:
        Path(text).stat()
    except OSError as err:
        if err.errno in NEVER:
            words = f"{what}: no file can be {text[:80]!r}{' ...' * (len(text) > 80)}: {(err.strerror or '').lower()}"
            raise UsageError(words, "name another file or folder") from None


def home() -> Path:
    """$ENVCHECK_HOME, else envcheck/ below the XDG data folder.  UsageError where that is no path, or there is none."""
    named = next((name for name in (OWN, DATA) if os.environ.get(name)), None)
    if named:
        given(os.environ[named], named)
    found = known_home()
    if found is None:
        raise UsageError("this user has no home: HOME is not set, and no account has one", "set HOME, or ENVCHECK_HOME")
    return found


def environment_folder(recipe: str) -> Path:
    """The virtual environment that provision makes for a recipe."""
    return home() / "environments" / recipe

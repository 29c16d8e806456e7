"""Where envcheck keeps what it makes; ENVCHECK_HOME moves all of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from envcheck.core.errors import UsageError

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
    """$ENVCHECK_HOME, else envcheck/ below the XDG data folder."""
    own, data = os.environ.get("ENVCHECK_HOME"), os.environ.get("XDG_DATA_HOME")
    if own or data:
        return given(own, "ENVCHECK_HOME") if own else given(data or "", "XDG_DATA_HOME") / "envcheck"
    users = user_home()
    if users is None:
        raise UsageError("this user has no home: HOME is not set, and no account has one", "set HOME, or ENVCHECK_HOME")
    return users / ".local" / "share" / "envcheck"


def known_home() -> Path | None:
    """For who only looks: None where `home` would be refused."""
    try:
        return home()
    except UsageError:
        return None


def user_home() -> Path | None:
    """None for a number without an account and without HOME, as containers give their users."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def environment_folder(recipe: str) -> Path:
    """The virtual environment that provision makes for a recipe."""
    return home() / "environments" / recipe

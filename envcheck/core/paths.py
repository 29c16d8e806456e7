"""Paths of envcheck's own files; ENVCHECK_HOME moves all of them."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.portable.home_folder import DATA_VARIABLE, HOME_VARIABLE, find_envcheck_home

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
IMPOSSIBLE_PATH_ERRORS = (errno.ENAMETOOLONG, errno.ELOOP)


def parse_path(text: str, what: str) -> Path:
    """Return a path from user input with ~ expanded; `what` names the option or key. UsageError if it is not a path."""
    if not text.strip() or has_control_characters(text):
        raise UsageError(
            _("{what}: {path!r} contains control characters", what=what, path=text[:80])
            if text.strip()
            else _("{what}: empty path", what=what),
            _("specify a path, or remove the option"),
        )
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        who = text.partition("/")[0]
        raise UsageError(
            _("{what} {path!r}: no home directory for {user}", what=what, path=text[:200], user=who),
            _("specify the full path"),
        ) from None
    require_possible_path(str(path), what)
    return path


def has_control_characters(text: str) -> bool:
    """Whether a text has characters that end a line, move the cursor or change the direction of writing: no name needs
    them, and in a script or on a terminal they are instructions."""
    return _CONTROL.search(text) is not None


def require_possible_path(text: str, what: str) -> None:
    """Raise UsageError if no such file can exist: a name too long, or a loop of links. A missing file is fine."""
    try:
        Path(text).stat()
    except OSError as err:
        if err.errno in IMPOSSIBLE_PATH_ERRORS:
            words = _(
                "{what}: {path!r}{dots} is not a valid path: {reason}",
                what=what,
                path=text[:80],
                dots=" ..." * (len(text) > 80),
                reason=(err.strerror or "").lower(),
            )
            raise UsageError(words, _("specify another file or directory")) from None


def envcheck_home() -> Path:
    """Return $ENVCHECK_HOME, else envcheck/ in the XDG data folder.  UsageError if it is not a path or there is no
    home."""
    named = next((name for name in (HOME_VARIABLE, DATA_VARIABLE) if os.environ.get(name)), None)
    if named:
        parse_path(os.environ[named], named)
    found = find_envcheck_home()
    if found is None:
        raise UsageError(
            _("no home directory: HOME is not set, and the user has no account entry"), _("set HOME, or ENVCHECK_HOME")
        )
    return found


def driver_folder(device: str) -> Path:
    """Return the folder of the records about a device's driver, which belongs to the machine and not to a recipe."""
    return envcheck_home() / "drivers" / device


def is_driver_folder(folder: Path) -> bool:
    """Return whether the folder is one of `driver_folder`."""
    return folder.parent == driver_folder(folder.name).parent


def environment_folder(recipe: str) -> Path:
    """Return the folder of the virtual environment that `provision` creates for a recipe."""
    return envcheck_home() / "environments" / recipe

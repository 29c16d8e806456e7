"""The user's home and envcheck's own folder."""

import os
from pathlib import Path

# Variables that move envcheck's folder; the first one that is set wins.
HOME_VARIABLE, DATA_VARIABLE = "ENVCHECK_HOME", "XDG_DATA_HOME"


def find_user_home() -> "Path | None":
    """Return the home directory; None for a uid without an account and without HOME, as is usual in containers."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def find_envcheck_home() -> "Path | None":
    """Return $ENVCHECK_HOME, else envcheck/ in the XDG data folder; None if the home directory is unknown."""
    own, data, users = os.environ.get(HOME_VARIABLE), os.environ.get(DATA_VARIABLE), find_user_home()
    try:
        if own:
            return Path(own).expanduser()
        if data:
            return Path(data).expanduser() / "envcheck"
    except RuntimeError:
        return None
    return users / ".local" / "share" / "envcheck" if users else None

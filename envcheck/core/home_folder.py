"""Where the user's home is, and envcheck's own; for every Python from 3.6 on, since it travels with the collector."""

import os
from pathlib import Path

# Each moves envcheck's folder; the first that is set counts.
OWN, DATA = "ENVCHECK_HOME", "XDG_DATA_HOME"


def user_home() -> "Path | None":
    """None for a number without an account and without HOME, as containers give their users."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def known_home() -> "Path | None":
    """$ENVCHECK_HOME, else envcheck/ below the XDG data folder; None where no home is known."""
    own, data, users = os.environ.get(OWN), os.environ.get(DATA), user_home()
    try:
        if own:
            return Path(own).expanduser()
        if data:
            return Path(data).expanduser() / "envcheck"
    except RuntimeError:
        return None
    return users / ".local" / "share" / "envcheck" if users else None

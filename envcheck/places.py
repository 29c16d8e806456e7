"""Where envcheck keeps what it makes; ENVCHECK_HOME moves all of it."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """$ENVCHECK_HOME, else envcheck/ below the XDG data folder."""
    own = os.environ.get("ENVCHECK_HOME")
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(own).expanduser() if own else Path(data).expanduser() / "envcheck"


def environment_folder(recipe: str) -> Path:
    """The virtual environment that provision makes for a recipe."""
    return home() / "environments" / recipe

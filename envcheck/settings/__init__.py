"""What a site sets for its doctor, and where its envcheck.toml is looked for."""

from __future__ import annotations

import os
from pathlib import Path

from envcheck.core import paths
from envcheck.core.home_folder import user_home
from envcheck.settings.site_settings import NAME, Settings


def load(named: str | None = None) -> Settings:
    """The named file's, else the working folder's, else the user's own; UsageError where it is wrong."""
    if named:
        return _read(Path(named), trusted=True)
    here, own = Path(NAME), _own()
    if here.exists():
        return _read(here, trusted=own is not None and own.exists() and own.samefile(here))
    return _read(own, trusted=True) if own is not None and own.exists() else Settings()


def _read(path: Path, trusted: bool) -> Settings:
    """Most machines have no file; its reader is imported where there is one, so that the others are asked sooner."""
    from envcheck.settings import file

    return file.read(path, trusted)


def _own() -> Path | None:
    """None for a user without a home."""
    if named := os.environ.get("XDG_CONFIG_HOME"):
        return paths.given(named, "XDG_CONFIG_HOME") / "envcheck" / NAME
    home = user_home()
    return home / ".config" / "envcheck" / NAME if home else None

"""A site's settings, and the search for its envcheck.toml."""

from __future__ import annotations

import os
from pathlib import Path

from envcheck.core import paths
from envcheck.core.portable.home_folder import find_user_home
from envcheck.settings.site_config import NAME, SiteSettings

MACHINE = Path("/etc/envcheck") / NAME  # of the administrator


def load_settings(named: str | None = None) -> SiteSettings:
    """Return the settings of the named file, else of the working folder's, else of the user's, else of the machine's.
    UsageError if it is invalid."""
    if named:
        return _read_settings(Path(named), trusted=True)
    here, own = Path(NAME), _own_settings_path()
    if here.exists():
        return _read_settings(here, trusted=own is not None and own.exists() and own.samefile(here))
    return _load_own_settings()


def load_access(named: str | None = None) -> SiteSettings:
    """Return the settings with [site]: of the named file, else of the user's, else of the machine's.

    A file in the working folder is not used for this: it may have come with an archive, and name a foreign index.
    """
    return load_settings(named) if named else _load_own_settings()


def find_unused_access(named: str | None = None) -> str:
    """Return the working folder's file if it has [site], which is not used; "" if there is none."""
    here = Path(NAME)
    if named or not here.exists():
        return ""
    found = load_settings()
    return "" if found.trusted or found.access.is_empty else str(here)


def _load_own_settings() -> SiteSettings:
    for path in (_own_settings_path(), MACHINE):
        if path is not None and path.exists():
            return _read_settings(path, trusted=True)
    return SiteSettings()


def _read_settings(path: Path, trusted: bool) -> SiteSettings:
    """Read a settings file; its reader is imported only if there is a file, which most hosts do not have."""
    from envcheck.settings import envcheck_toml

    return envcheck_toml.read_settings_file(path, trusted)


def _own_settings_path() -> Path | None:
    """Return the user's settings file; None for a user without a home directory."""
    if named := os.environ.get("XDG_CONFIG_HOME"):
        return paths.parse_path(named, "XDG_CONFIG_HOME") / "envcheck" / NAME
    home = find_user_home()
    return home / ".config" / "envcheck" / NAME if home else None

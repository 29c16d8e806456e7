"""The site's settings for a command: read once, and applied to this process."""

from __future__ import annotations

from pathlib import Path

import click

from envcheck import settings
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.settings.apply_access import use_site
from envcheck.settings.site_access import SiteAccess


def read_site(config: str | None) -> SiteAccess:
    """Return [site] of the settings file; prints if the one of the working folder is not used."""
    found = settings.load_access(config)
    if unused := settings.find_unused_access(config):
        click.echo(translate(_("[site] of {file} is not used; to use it, add --config {file}", file=unused)), err=True)
    return found.access


def apply_site(config: str | None) -> SiteAccess:
    """Return [site] of the settings file; until the command ends, this process and its children have its variables."""
    site = read_site(config)
    if not site.is_empty:
        click.get_current_context().with_resource(use_site(site))
    return site


def find_carried_settings(config: str | None) -> Path | None:
    """Return the settings file that other hosts get: the named one, or the user's if it has [site]."""
    found = settings.load_access(config)
    return Path(found.file) if found.file and (config or not found.access.is_empty) else None

"""The site's settings for a command: read once, and applied to this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from envcheck import settings
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.settings import site_access
from envcheck.settings.site_access import SiteAccess


def apply_site(config: str | None) -> SiteAccess:
    """Return [site] of the settings file; until the command ends, this process and its children have its variables."""
    found = settings.load_access(config)
    if unused := settings.find_unused_access(config):
        click.echo(translate(_("[site] of {file} is not used; to use it, add --config {file}", file=unused)), err=True)
    if not found.access.is_empty:
        click.get_current_context().with_resource(_changed_environment(site_access.list_variables(found.access)))
    return found.access


def find_carried_settings(config: str | None) -> Path | None:
    """Return the settings file that other hosts get: the named one, or the user's if it has [site]."""
    found = settings.load_access(config)
    return Path(found.file) if found.file and (config or not found.access.is_empty) else None


@contextlib.contextmanager
def _changed_environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""Apply a site's access to the outside to this process and its children."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from envcheck.settings import site_access
from envcheck.settings.site_access import SiteAccess


@contextlib.contextmanager
def use_site(site: SiteAccess) -> Iterator[None]:
    """Give this process the variables of the site, and restore the former ones at the end."""
    variables = site_access.list_variables(site)
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

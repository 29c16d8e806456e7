"""Where a page of the documentation is: on the site that the package's metadata names, else in the source tree."""

from __future__ import annotations

from functools import cache
from importlib import metadata

PACKAGE = "envcheck-toolkit"
LABEL = "documentation"  # of the project URL with the site


def find_page(path: str, anchor: str = "") -> str:
    """Return the address of a page, such as reference/lint-rules: a URL if the site is known, else its file."""
    site = _find_site()
    page = f"{site.rstrip('/')}/{path}.html" if site else f"docs/{path}.md"
    return f"{page}#{anchor}" if anchor else page


@cache
def _find_site() -> str:
    """Return the project URL of the documentation; "" without one, or without metadata (envcheck.pyz)."""
    try:
        urls = metadata.metadata(PACKAGE).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    pairs = (url.partition(",")[::2] for url in urls)
    return next((url.strip() for label, url in pairs if label.strip().lower() == LABEL), "")

"""The page of a rule: on the site that the package's metadata names, else in the source tree."""

from __future__ import annotations

from functools import cache
from importlib import metadata

from envcheck.lint.rule_table import RULES_BY_NAME

PACKAGE = "envcheck-toolkit"
LABEL = "documentation"  # of the project URL with the site
_PAGE = "reference/lint-rules"
_SHELLCHECK = "https://www.shellcheck.net/wiki"


def find_rule_page(name: str) -> str:
    """Return the page of a rule with its section, as a URL if the site is known; that of shellcheck for its rules."""
    if name not in RULES_BY_NAME:
        return f"{_SHELLCHECK}/{name.rpartition('.')[2]}"
    site = _find_site().rstrip("/")
    return f"{site}/{_PAGE}.html#{name}" if site else f"docs/{_PAGE}.md#{name}"


@cache
def _find_site() -> str:
    """Return the project URL of the documentation; "" without one, or without metadata (envcheck.pyz)."""
    try:
        urls = metadata.metadata(PACKAGE).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    pairs = (url.partition(",")[::2] for url in urls)
    return next((url.strip() for label, url in pairs if label.strip().lower() == LABEL), "")

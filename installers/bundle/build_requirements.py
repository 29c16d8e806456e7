"""What builds a project from its sources."""

from __future__ import annotations

from envcheck.core import toml_file
from envcheck.core.errors import EnvcheckError

LEGACY = ("setuptools>=40.8.0", "wheel")  # what pip takes where a project names nothing


def required(pyproject: str) -> tuple[str, ...]:
    """What a project says that builds it."""
    try:
        said = toml_file.table(pyproject, "pyproject.toml", "").get("build-system", {}).get("requires")
    except (EnvcheckError, AttributeError):
        said = None
    return tuple(each for each in said if isinstance(each, str)) if isinstance(said, list) else LEGACY

"""Build requirements of a Python project."""

from __future__ import annotations

from envcheck.core import toml_file
from envcheck.core.errors import EnvcheckError
from envcheck.core.messages import NOTHING

LEGACY = ("setuptools>=40.8.0", "wheel")  # pip's default for a project without build requirements


def parse_build_requirements(pyproject: str) -> tuple[str, ...]:
    """Return the build requirements in pyproject.toml."""
    try:
        requires = toml_file.parse_table(pyproject, "pyproject.toml", NOTHING).get("build-system", {}).get("requires")
    except (EnvcheckError, AttributeError):
        requires = None
    return tuple(each for each in requires if isinstance(each, str)) if isinstance(requires, list) else LEGACY

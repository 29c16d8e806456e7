"""TOML files that ship beside the code."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core import toml_file

LIMIT = 1 << 20  # bytes


def table(name: str) -> dict[str, Any]:
    """launch/catalogue/NAME.toml."""
    return beside(__file__, name)


def beside(file: str, name: str) -> dict[str, Any]:
    """NAME.toml in the folder of a module."""
    return read(Path(file).with_name(f"{name}.toml"))


@cache
def read(path: Path) -> dict[str, Any]:
    """A file of ours, read once."""
    return toml_file.table(toml_file.text(path, LIMIT, "table"), path.name, "reinstall envcheck")

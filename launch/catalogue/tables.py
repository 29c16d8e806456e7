"""TOML files that ship beside the code."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def table(name: str) -> dict[str, Any]:
    """launch/catalogue/NAME.toml."""
    return beside(__file__, name)


@cache
def beside(file: str, name: str) -> dict[str, Any]:
    """NAME.toml in the folder of a module, read once."""
    with Path(file).with_name(f"{name}.toml").open("rb") as source:
        data: dict[str, Any] = tomllib.load(source)
    return data

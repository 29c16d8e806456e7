"""The linter's lists of names, as data: data/*.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core import toml_file

FOLDER = Path(__file__).parent / "data"
LIMIT = 256 << 10


@dataclass(frozen=True)
class Family:
    """Variables that begin alike; `closed`: there are no others."""

    prefix: str
    reader: str
    source: str
    closed: bool
    names: frozenset[str]


@cache
def load(name: str) -> Mapping[str, Any]:
    return toml_file.table(toml_file.text(FOLDER / f"{name}.toml", LIMIT, "table"), name, "install envcheck again")


@cache
def families() -> tuple[Family, ...]:
    tables = load("names")["families"]
    return tuple(Family(**{**table, "names": frozenset(table["names"])}) for table in tables)


def singles() -> frozenset[str]:
    return frozenset(load("names")["singles"])


@cache
def keys(name: str) -> frozenset[str]:
    """Of data/keys.toml."""
    return frozenset(load("keys")[name])


@cache
def renamed(tool: str) -> Mapping[str, str]:
    """Old name or option → today's, of the tables of versions."""
    from envcheck.compat import loading

    return {each.old: each.new for each in loading.table().renamed if each.tool == tool}


def gone() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = load("names")["gone"]
    return found


def vendors_of(variable: str) -> tuple[str, ...]:
    """For whose cards a variable does anything; () for all."""
    for row in load("names")["vendor"]:
        if re.fullmatch(row["pattern"], variable):
            return tuple(row["of"])
    return ()

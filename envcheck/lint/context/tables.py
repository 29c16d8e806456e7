"""The linter's lists of names, as data: data/*.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.compat import loading
from envcheck.core import toml_file
from envcheck.scripts.vendor_words import RUNTIME_VARIABLES, VISIBLE_VARIABLES

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


@cache
def singles() -> frozenset[str]:
    """Names of no family; those of the vendors' records are among them."""
    return frozenset(load("names")["singles"]) | VISIBLE_VARIABLES | RUNTIME_VARIABLES


def other_device_lists() -> frozenset[str]:
    """Variables that choose devices of vendors that are not known here."""
    return frozenset(load("names")["device_lists"])


@cache
def keys(name: str) -> frozenset[str]:
    """Of data/keys.toml."""
    return frozenset(load("keys")[name])


@cache
def renamed(tool: str) -> Mapping[str, str]:
    """Old name or option → today's, of the tables of versions."""
    return {each.old: each.new for each in loading.table().renamed if each.tool == tool}


def gone() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = load("names")["gone"]
    return found

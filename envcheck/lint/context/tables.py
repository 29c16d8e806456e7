"""The linter's lists of names, as data: data/*.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.compat import loading
from envcheck.core.toml_file import own_record, own_table
from envcheck.scripts.vendor_words import RUNTIME_VARIABLES, VISIBLE_VARIABLES

FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Family:
    """Variables that begin alike; `closed`: there are no others."""

    prefix: str
    reader: str
    source: str
    closed: bool
    names: frozenset[str]


@dataclass(frozen=True)
class GoneVariable:
    """A variable that nothing reads any more; `instead`: the one that is read, "" where there is none."""

    says: str
    source: str
    instead: str = ""


@dataclass(frozen=True)
class VariableNames:
    """data/names.toml; `singles` are of no family, `device_lists` choose devices of vendors that are not known here."""

    families: tuple[Family, ...]
    singles: frozenset[str]
    device_lists: frozenset[str]
    gone: Mapping[str, GoneVariable]


@dataclass(frozen=True)
class OldValue:
    """Values of a program's option that its older versions had, by their pattern."""

    option: str
    program: str
    pattern: str
    says: str
    source: str


@dataclass(frozen=True)
class Project:
    """A project: `pattern` tells its clone, `extras` are what pip knows; `clone`: its wheel alone does not work."""

    pattern: str
    name: str
    folder: str
    extras: tuple[str, ...]
    source: str
    clone: bool = False


@dataclass(frozen=True)
class Projects:
    """data/projects.toml."""

    values: tuple[OldValue, ...]
    projects: tuple[Project, ...]
    moved: Mapping[str, str]
    tools: Mapping[str, str]


@cache
def variables() -> VariableNames:
    return own_record(VariableNames, FOLDER / "names.toml")


@cache
def projects() -> Projects:
    return own_record(Projects, FOLDER / "projects.toml")


@cache
def singles() -> frozenset[str]:
    """Names of no family; those of the vendors' records are among them."""
    return variables().singles | VISIBLE_VARIABLES | RUNTIME_VARIABLES


@cache
def keys(name: str) -> frozenset[str]:
    """Of data/keys.toml."""
    return frozenset(own_table(FOLDER / "keys.toml")[name])


@cache
def renamed(tool: str) -> Mapping[str, str]:
    """Old name or option → today's, of the tables of versions."""
    return {each.old: each.new for each in loading.table().renamed if each.tool == tool}

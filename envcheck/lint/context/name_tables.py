"""The linter's name tables, as data: data/*.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.compat import table_loader
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.toml_file import load_own_record, load_own_table
from envcheck.scripts.vendor_words import RUNTIME_VARIABLES, VISIBLE_VARIABLES

_LEAST_NAMES = 2  # of a common parser's options, by which the parser of an unknown program is recognised
_COMMON = frozenset(("lr", "learning_rate", "weight_decay", "device"))  # options that programs of any kind have
FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class VariableFamily:
    """Variables with a common prefix; `closed`: there are no others."""

    prefix: str
    reader: str
    source: str
    closed: bool
    names: frozenset[str]


@dataclass(frozen=True)
class RemovedVariable:
    """A variable that nothing reads any more; `instead`: its replacement, "" if there is none."""

    says: str
    source: str
    instead: str = ""


@dataclass(frozen=True)
class VariableNames:
    """data/names.toml; `singles` belong to no family, `device_lists` select devices of vendors unknown here."""

    families: tuple[VariableFamily, ...]
    singles: frozenset[str]
    device_lists: frozenset[str]
    gone: Mapping[str, RemovedVariable]


@dataclass(frozen=True)
class OldValue:
    """Values of a program's option in older versions, by pattern."""

    option: str
    program: str
    pattern: str
    says: str
    source: str


@dataclass(frozen=True)
class KnownProject:
    """A project: `pattern` recognises its clone, `extras` are those that pip knows; `clone`: it needs its clone, not
    only the wheel.
    """

    pattern: str
    name: str
    folder: str
    extras: tuple[str, ...]
    source: str
    clone: bool = False


@dataclass(frozen=True)
class ProjectTables:
    """The contents of data/projects.toml."""

    values: tuple[OldValue, ...]
    projects: tuple[KnownProject, ...]
    moved: Mapping[str, str]
    tools: Mapping[str, str]


@cache
def load_variable_names() -> VariableNames:
    return load_own_record(VariableNames, FOLDER / "names.toml")


@cache
def load_projects() -> ProjectTables:
    return load_own_record(ProjectTables, FOLDER / "projects.toml")


@cache
def load_single_names() -> frozenset[str]:
    """Return variable names that belong to no family, including those of the vendors."""
    return load_variable_names().singles | VISIBLE_VARIABLES | RUNTIME_VARIABLES


@cache
def load_keys(name: str) -> frozenset[str]:
    """Return the contents of data/keys.toml."""
    return frozenset(load_own_table(FOLDER / "keys.toml")[name])


@cache
def load_dialects() -> Mapping[str, frozenset[str]]:
    """Return common parsers and the names of their options: data/dialects.toml."""
    return {parser: frozenset(names) for parser, names in load_own_table(FOLDER / "dialects.toml").items()}


def find_dialect(job: TrainingJob) -> str:
    """Return the common parser whose options an unknown program has; "" if they are too few to tell."""
    names = {given.python_name for given in job.options}
    scores = {dialect: len(names & known) for dialect, known in load_dialects().items() if names & known - _COMMON}
    if not scores:
        return ""
    best = max(scores, key=lambda dialect: scores[dialect])
    return best if scores[best] >= _LEAST_NAMES else ""


@cache
def load_renamed_options(tool: str) -> Mapping[str, str]:
    """Return old name or option → current one, from the version tables."""
    return {each.old: each.new for each in table_loader.own_version_table().renamed if each.tool == tool}

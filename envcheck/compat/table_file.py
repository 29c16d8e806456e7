"""A version table as a file: envcheck/compat/*.toml, and the compat.toml of each vendor."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envcheck.compat.version_records import Confidence, PairStatus, SolverGoal, VersionedComponent, VersionRow
from envcheck.core import toml_file
from envcheck.core.toml_file import Given, OneOrMany
from envcheck.vendors import find_data_files

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class RowGroup:
    """The rows of one component."""

    of: str
    rows: tuple[VersionRow, ...]
    about: str = ""


@dataclass(frozen=True)
class RuleTable:
    """A rule for pairs that no row lists; `holds` is the status of two versions that satisfy the relation."""

    pair: tuple[str, str]
    relation: str
    holds: PairStatus
    source: OneOrMany[str]
    date: str
    confidence: Confidence = Confidence.DOCUMENTED
    symptom: str = ""
    remedy: str = ""
    note: str = ""


@dataclass(frozen=True)
class ImageGroup:
    """Images in some repositories: the contents of each `tag` by component, and a `doubt` about it."""

    repositories: tuple[str, ...]
    holds: tuple[Mapping[str, str], ...]
    source: OneOrMany[str]
    date: str


@dataclass(frozen=True)
class RenamedOptions:
    """Pairs (old name, new name) of a tool's options that were renamed in version `since`."""

    tool: str
    since: str
    renamed: tuple[tuple[str, str], ...]
    source: OneOrMany[str]
    date: str
    confidence: Confidence = Confidence.DOCUMENTED
    note: str = ""


@dataclass(frozen=True)
class PackageIndex:
    """The package index of one package."""

    package: str
    url: str
    source: str
    date: str


@dataclass(frozen=True)
class DeviceIndexes:
    """`devices` are the packages by the folder that replaces {device} in `pattern`."""

    devices: Mapping[str, str]
    pattern: str = ""
    source: OneOrMany[str] = ()
    confidence: Confidence = Confidence.DOCUMENTED
    date: str = ""


@dataclass(frozen=True)
class CompatFile:
    """The content of one file; `name` is used in errors, `vendor` is "" for tables of all hosts."""

    name: Given[str]
    vendor: Given[str] = ""
    components: Mapping[str, VersionedComponent] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[RowGroup, ...] = ()
    rules: tuple[RuleTable, ...] = ()
    images: tuple[ImageGroup, ...] = ()
    options: tuple[RenamedOptions, ...] = ()
    urls: tuple[PackageIndex, ...] = ()
    indexes: DeviceIndexes = DeviceIndexes({})
    goals: Mapping[str, SolverGoal] = field(default_factory=dict)


def read_file(path: Path, vendor: str = "") -> CompatFile:
    """Read a table file; UsageError names the invalid key."""
    name = f"{path.parent.name}/{path.name}"
    table = toml_file.load_own_table(path)
    return toml_file.load_record(CompatFile, table, name, name=name, vendor=vendor)


@functools.cache
def own_files() -> tuple[CompatFile, ...]:
    """Return the files that ship with envcheck, the vendors' first; read only once."""
    vendors = [read_file(path, vendor.name) for vendor, path in find_data_files("compat.toml")]
    return (*vendors, *(read_file(path) for path in toml_file.list_files(FOLDER)))

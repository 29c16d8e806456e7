"""A table of versions as it stands in a file: envcheck/compat/*.toml, and the compat.toml of each vendor."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envcheck.compat.model import Component, Confidence, Goal, Row, Standing
from envcheck.core import toml_file
from envcheck.core.toml_file import Given, OneOrMany
from envcheck.vendors import find_data_files

FOLDER = Path(__file__).parent
LIMIT = 1 << 20  # bytes of one file
NEXT = "compare with the rows beside it; envcheck/compat/components.toml explains the keys"


@dataclass(frozen=True)
class RowGroup:
    """Rows of one component."""

    of: str
    rows: tuple[Row, ...]
    about: str = ""


@dataclass(frozen=True)
class RuleTable:
    """What holds of a pair where no row names it; `holds` is the standing of two versions that keep the relation."""

    pair: tuple[str, str]
    relation: str
    holds: Standing
    source: OneOrMany[str]
    date: str
    confidence: Confidence = Confidence.DOCUMENTED
    symptom: str = ""
    remedy: str = ""
    note: str = ""


@dataclass(frozen=True)
class ImageGroup:
    """Images of some repositories: what each `tag` holds, by component, and its `doubt`."""

    repositories: tuple[str, ...]
    holds: tuple[Mapping[str, str], ...]
    source: OneOrMany[str]
    date: str


@dataclass(frozen=True)
class RenamedOptions:
    """Pairs of an option's names in a tool, before the version `since` and from it on."""

    tool: str
    since: str
    renamed: tuple[tuple[str, str], ...]
    source: OneOrMany[str]
    date: str
    confidence: Confidence = Confidence.DOCUMENTED
    note: str = ""


@dataclass(frozen=True)
class PackageIndex:
    """The index of one package."""

    package: str
    url: str
    source: str
    date: str


@dataclass(frozen=True)
class DeviceIndexes:
    """`devices` are the packages by the folder that `pattern` takes as {device}."""

    devices: Mapping[str, str]
    pattern: str = ""
    source: OneOrMany[str] = ()
    confidence: Confidence = Confidence.DOCUMENTED
    date: str = ""


@dataclass(frozen=True)
class CompatFile:
    """A file; `name` is how sentences call it, `vendor` whose it is, "" for every machine's."""

    name: Given[str]
    vendor: Given[str] = ""
    components: Mapping[str, Component] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[RowGroup, ...] = ()
    rules: tuple[RuleTable, ...] = ()
    images: tuple[ImageGroup, ...] = ()
    options: tuple[RenamedOptions, ...] = ()
    urls: tuple[PackageIndex, ...] = ()
    indexes: DeviceIndexes = DeviceIndexes({})
    goals: Mapping[str, Goal] = field(default_factory=dict)


def read_file(path: Path, vendor: str = "") -> CompatFile:
    """UsageError names what is wrong with it."""
    name = f"{path.parent.name}/{path.name}"
    table = toml_file.table(toml_file.text(path, LIMIT, "table"), name, NEXT)
    return toml_file.load_record(CompatFile, table, name, name=name, vendor=vendor)


@functools.cache
def own_files() -> tuple[CompatFile, ...]:
    """Ours, read once: the vendors' first."""
    vendors = [read_file(path, vendor.name) for vendor, path in find_data_files("compat.toml")]
    return (*vendors, *(read_file(path) for path in sorted(FOLDER.glob("*.toml"))))

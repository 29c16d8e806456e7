"""What has a version, from the tables: those of every machine beside this file, and each vendor's compat.toml."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.core import toml_file
from envcheck.vendors import find_data_files

FOLDER = Path(__file__).parent
LIMIT = 256 << 10  # bytes of one file
NEXT = "the keys stand at the head of envcheck/compat/components.toml"


@dataclass(frozen=True)
class Component:
    """Something with a version.  `builds`: 24.1.rc1.b030 is 24.1.rc1; `word`: no number, compared as a prefix.

    `title` is its name where the table has none.  `vendor` is the one whose table has it, "" for the tables of every
    machine.  `package`: pip's name of it, where several makers' packages have one name; they differ in how the
    version's part behind + begins, one of `labels`.
    """

    title: str = ""
    builds: bool = False
    word: bool = False
    package: str = ""
    labels: tuple[str, ...] = ()
    vendor: str = toml_file.ours("")


@dataclass(frozen=True)
class TableFile:
    """A file as it stands; `name` is how sentences call it, `vendor` whose it is, "" for every machine's."""

    name: str
    said: Mapping[str, Any]
    vendor: str = ""


def read_file(path: Path, vendor: str = "") -> TableFile:
    """UsageError names what is wrong with it as TOML."""
    name = f"{path.parent.name}/{path.name}"
    return TableFile(name, toml_file.table(toml_file.text(path, LIMIT, "table"), name, NEXT), vendor)


@functools.cache
def own_files() -> tuple[TableFile, ...]:
    """Ours, read once: the vendors' first."""
    vendors = [read_file(path, vendor.name) for vendor, path in find_data_files("compat.toml")]
    return (*vendors, *(read_file(path) for path in sorted(FOLDER.glob("*.toml"))))


@functools.cache
def components() -> Mapping[str, Component]:
    """By name."""
    return {
        name: _component(file, name, said)
        for file in own_files()
        for name, said in file.said.get("components", {}).items()
    }


def _component(file: TableFile, name: str, table: object) -> Component:
    read = toml_file.load_record(Component, table, f"{file.name}: {name}")
    return replace(read, title=read.title or name, vendor=file.vendor)

"""Which options a training program has, by its version: lists as data (options/), and three answers for a name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from installers.recipes.recipe import Recipe
from launch.catalogue.tables import beside

FOLDER = Path(__file__).parent / "options"
Versions = Mapping[str, str]  # package → the version that is installed


@dataclass(frozen=True)
class Known:
    """The options of a `program` (words of its command) where `package` is of these `versions`.

    `complete`: a name that is not here is an error of the program; else nobody knows.
    """

    program: str
    package: str
    versions: str
    source: str
    complete: bool
    names: frozenset[str]
    title: str = ""  # where the words of the command say nothing to a person

    def has(self, name: str) -> bool | None:
        """Also no_NAME, which transformers' and Paddle's parsers make of a flag that is on."""
        if {name, name.removeprefix("no_")} & self.names:
            return True
        return False if self.complete else None

    def nearest(self, name: str) -> str | None:
        """The right name for a wrong one."""
        plain = name.replace("-", "_").lower()
        return next(iter(difflib.get_close_matches(plain[:80], sorted(self.names), 1, 0.6)), None)


@cache
def lists() -> tuple[Known, ...]:
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        table = dict(beside(str(path), path.stem))
        names, programs = frozenset(table.pop("names")), [table.pop("program"), *table.pop("aliases", ())]
        found += [Known(**table, program=program, names=names) for program in programs]
    return tuple(found)


def of(launcher: Iterable[str], recipe: Recipe, installed: Versions) -> Known | None:
    """The list for a command; None where there is none for the version that is installed, or that the recipe pins."""
    words = f" {' '.join(launcher)} "
    for known in lists():
        if f" {known.program} " in words and fits(version_of(known.package, recipe, installed), known.versions):
            return known
    return None


def version_of(package: str, recipe: Recipe, installed: Versions) -> str | None:
    """What is installed, else the lowest version that the recipe takes, else None: nobody says."""
    if package in installed:
        return installed[package]
    pinned = next((p.specifier for p in recipe.packages if p.name.partition("[")[0] == package), "")
    found = re.search(r"(?:==|>=|~=)\s*([0-9][\w.]*)", pinned)
    return found[1] if found else None


def fits(version: str | None, versions: str) -> bool:
    """An unknown version fits: the recipe was written for the lists that there are."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    if version is None:
        return True
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False

"""Which options a training program has, by its version: lists as data (options/), and three answers for a name.

A list says which versions it speaks of (`versions`) and of which the sources were read (`read`; all, where it is not
said): for others it is a help, and complete for none.  What only some versions have stands below `only`.  Where an
upstream extends another's classes (transformers' trainer), a version has the names of every release of it that the
version allows: a name that one of them has is never refused, and what none of them has always is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from envcheck.core.toml_file import own_record
from installers.recipes.recipe import Recipe

FOLDER = Path(__file__).parent / "options"
Versions = Mapping[str, str]  # package → the version that is installed


@dataclass(frozen=True)
class OptionSchema:
    """The options of a `program` (words of its command) where `package` is of these `versions`.

    `complete`: a name that is not here is an error of the program; else nobody knows.  `off`: truths that are on unless
    it is said, of which its parser makes --no_NAME as well.  `dashes`: its parser takes - for _.  `only`: versions and
    the names that no others have; `names` has them too.  `aliases`: other programs of the same options.
    """

    program: str
    package: str
    versions: str
    source: str
    complete: bool
    names: frozenset[str]
    title: str = ""  # where the words of the command say nothing to a person
    read: str = ""
    off: frozenset[str] = frozenset()
    dashes: bool = False
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    def has(self, name: str) -> bool | None:
        if self.spelled(name)[0] in self.names:
            return True
        return False if self.complete else None

    def spelled(self, name: str) -> tuple[str, bool]:
        """The list's own spelling of a name, and whether it is said in the negative (no_NAME)."""
        plain = name.replace("-", "_") if self.dashes else name
        if plain not in self.names and plain.removeprefix("no_") in self.off:
            return plain.removeprefix("no_"), True
        return plain if plain in self.names else name, False

    def nearest(self, name: str) -> str | None:
        """The right name for a wrong one."""
        plain = name.replace("-", "_").lower()[:80]
        near = difflib.get_close_matches(plain, sorted(self.names), 1, 0.7)
        return next(iter(near), None)

    def at(self, version: str | None) -> OptionSchema:
        """The list for that version alone; None: nobody knows which it is, and all of it holds."""
        if version is None:
            return self
        gone = frozenset().union(*(names for where, names in self.only.items() if not fits(version, where)))
        complete = self.complete and fits(version, self.read or self.versions)
        return replace(self, names=self.names - gone, off=self.off - gone, complete=complete)

    def elsewhere(self, name: str) -> str:
        """The versions that have a name which others have not; "" where there are none."""
        plain = name.replace("-", "_") if self.dashes else name
        return next((where for where, names in self.only.items() if {plain, plain.removeprefix("no_")} & names), "")


@cache
def lists() -> tuple[OptionSchema, ...]:
    return tuple(each for path in sorted(FOLDER.glob("*.toml")) for each in _read(path))


def _read(path: Path) -> list[OptionSchema]:
    read = own_record(OptionSchema, path)
    whole = replace(read, names=read.names.union(*read.only.values()))
    return [replace(whole, program=program) for program in (read.program, *read.aliases)]


def of(launcher: Iterable[str], recipe: Recipe, installed: Versions) -> OptionSchema | None:
    """The list for a command; None where there is none for the version that is installed, or that the recipe pins."""
    words = f" {' '.join(launcher)} "
    for known in lists():
        version = version_of(known.package, recipe, installed)
        if f" {known.program} " in words and fits(version, known.versions):
            return known.at(version)
    return None


def version_of(package: str, recipe: Recipe, installed: Versions) -> str | None:
    """What is installed, else the lowest version that the recipe takes, else the one that its image is named after
    (llamafactory:0.9.4-npu-a2), else None: nobody says."""
    if package in installed:
        return installed[package]
    pinned = next((p.specifier for p in recipe.packages if p.name.partition("[")[0] == package), "")
    images = " ".join(recipe.image.references.values() if recipe.image else ())
    found = re.search(r"(?:==|>=|~=)\s*([0-9][\w.]*)", pinned) or re.search(rf"/{package}:v?(\d+(?:\.\d+)+)", images)
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

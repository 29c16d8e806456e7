"""Options of the training programs by version, from the lists in options/; a name is known, unknown or undecided.

A list names the versions that it describes (`versions`) and those whose sources were read (`read`, by default all of
them); for any other version the list is a hint only, never complete.  `only` holds options of some versions.  Where an
upstream extends classes of another package (transformers' trainer), a version has the names of every release of that
package that it allows: a name in any of them is accepted, a name in none of them is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from envcheck.core import suggestions
from envcheck.core.toml_file import list_files, load_own_record
from installers.recipes.recipe import Recipe

FOLDER = Path(__file__).parent / "options"
Versions = Mapping[str, str]  # package → the version that is installed


@dataclass(frozen=True)
class OptionSchema:
    """The options of a `program` (words of its command) for these `versions` of `package`.

    `complete`: the program rejects every name that is not listed; otherwise such a name is undecided.  `off`: booleans
    that default to true, for which the parser also accepts --no_NAME.  `dashes`: the parser accepts - for _.  `only`:
    version range → names that no other version has; `names` includes them.  `aliases`: programs with the same options.
    """

    program: str
    package: str
    versions: str
    source: str
    complete: bool
    names: frozenset[str]
    title: str = ""  # shown to users instead of `program`
    read: str = ""
    off: frozenset[str] = frozenset()
    dashes: bool = False
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    def has_option(self, name: str) -> bool | None:
        """Whether the program has this option; None if the list is incomplete and does not have it."""
        if self.resolve_spelling(name)[0] in self.names:
            return True
        return False if self.complete else None

    def resolve_spelling(self, name: str) -> tuple[str, bool]:
        """Return the name as the list spells it, and whether it was negated (no_NAME)."""
        plain = name.replace("-", "_") if self.dashes else name
        if plain not in self.names and plain.removeprefix("no_") in self.off:
            return plain.removeprefix("no_"), True
        return plain if plain in self.names else name, False

    def suggest_name(self, name: str) -> str | None:
        """Return the listed name closest to a misspelt one, None if none is close."""
        return next(iter(suggestions.find_close(name.replace("-", "_"), self.names, 1, 0.7)), None)

    def for_version(self, version: str | None) -> OptionSchema:
        """Return the list reduced to one version; for None (version unknown) the whole list."""
        if version is None:
            return self
        gone = frozenset().union(*(names for where, names in self.only.items() if not matches_versions(version, where)))
        complete = self.complete and matches_versions(version, self.read or self.versions)
        return replace(self, names=self.names - gone, off=self.off - gone, complete=complete)

    def find_versions_with(self, name: str) -> str:
        """Return the version range that has this name, if others do not; "" if no version has it."""
        plain = name.replace("-", "_") if self.dashes else name
        return next((where for where, names in self.only.items() if {plain, plain.removeprefix("no_")} & names), "")


@cache
def load_schemas() -> tuple[OptionSchema, ...]:
    """Return the lists of options/*.toml, one per program and alias."""
    return tuple(each for path in list_files(FOLDER) for each in _read_schemas(path))


def _read_schemas(path: Path) -> list[OptionSchema]:
    read = load_own_record(OptionSchema, path)
    whole = replace(read, names=read.names.union(*read.only.values()))
    return [replace(whole, program=program) for program in (read.program, *read.aliases)]


def find_schema(launcher: Iterable[str], recipe: Recipe, installed: Versions) -> OptionSchema | None:
    """Return the option list of a command; None if no list covers the installed (or pinned) version."""
    words = f" {' '.join(launcher)} "
    for known in load_schemas():
        version = find_version(known.package, recipe, installed)
        if f" {known.program} " in words and matches_versions(version, known.versions):
            return known.for_version(version)
    return None


def find_version(package: str, recipe: Recipe, installed: Versions) -> str | None:
    """Return the installed version of a package, else the lowest one that the recipe accepts, else the one in its
    image tag (llamafactory:0.9.4-npu-a2), else None."""
    if package in installed:
        return installed[package]
    pinned = next((p.specifier for p in recipe.packages if p.name.partition("[")[0] == package), "")
    images = " ".join(recipe.image.references.values() if recipe.image else ())
    found = re.search(r"(?:==|>=|~=)\s*([0-9][\w.]*)", pinned) or re.search(rf"/{package}:v?(\d+(?:\.\d+)+)", images)
    return found[1] if found else None


def matches_versions(version: str | None, versions: str) -> bool:
    """Whether `version` is in the range `versions`; an unknown one is, since recipes are written for these lists."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    if version is None:
        return True
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False

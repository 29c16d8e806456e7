"""Entry points of installed packages, found by reading their files: importlib.metadata takes longer than all checks."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

OURS = "[envcheck."  # sections of other programs are not looked at
_METADATA = re.compile(r"([^/]+)-info/entry_points\.txt")


@dataclass(frozen=True)
class EntryPoint:
    """A line `name = value` of a package's entry_points.txt; value is module or module:object."""

    name: str
    value: str

    def load(self) -> Any:
        """The module, or what of it is named; whatever the package raises."""
        module, _, path = self.value.partition(":")
        found: Any = importlib.import_module(module.strip())
        for attribute in filter(None, path.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Those of the packages on sys.path, in its order; of two installations of one package the first counts."""
    found: dict[tuple[str, str], EntryPoint] = {}
    for package, text in _texts(tuple(sys.path)):
        for name, value in _section(text, group):
            found.setdefault((package, name), EntryPoint(name, value))
    return tuple(found.values())


@lru_cache(maxsize=4)
def _texts(folders: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(package, its entry_points.txt) of those that have something for envcheck."""
    found = (pair for folder in dict.fromkeys(folders) for pair in _of_folder(Path(folder or ".")))
    return tuple((name.partition("-")[0].lower(), text) for name, text in found if OURS in text)


def _of_folder(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        if folder.is_file():
            yield from _of_archive(folder)
            return
        for path in folder.glob("*-info/entry_points.txt"):
            yield path.parent.name, path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return


def _of_archive(file: Path) -> Iterator[tuple[str, str]]:
    import zipfile

    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if found := _METADATA.fullmatch(name):
                yield found[1], archive.read(name).decode("utf-8", "replace")


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    within = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            within = line == f"[{group}]"
        elif within and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()  # extras in brackets are of older formats

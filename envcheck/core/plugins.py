"""Entry points of installed packages, read from their files: importlib.metadata takes longer than all checks
together."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

OURS = "[envcheck."  # sections of other programs are ignored
_METADATA = re.compile(r"([^/]+)-info/entry_points\.txt")


@dataclass(frozen=True)
class EntryPoint:
    """A line `name = value` of a package's entry_points.txt; value is module or module:object."""

    name: str
    value: str

    def load_object(self) -> Any:
        """Import and return the module or the named object; raises whatever the package raises."""
        module, _, path = self.value.partition(":")
        found: Any = importlib.import_module(module.strip())
        for attribute in filter(None, path.strip().split(".")):
            found = getattr(found, attribute)
        return found


def find_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group in the order of sys.path; of two installations of a package the first one
    wins."""
    found: dict[tuple[str, str], EntryPoint] = {}
    for package, text in _read_entry_point_files(tuple(sys.path)):
        for name, value in _parse_section(text, group):
            found.setdefault((package, name), EntryPoint(name, value))
    return tuple(found.values())


@lru_cache(maxsize=4)
def _read_entry_point_files(folders: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return (package, text of its entry_points.txt) for the packages that have a section for envcheck."""
    found = (pair for folder in dict.fromkeys(folders) for pair in _read_folder(Path(folder or ".")))
    return tuple((name.partition("-")[0].lower(), text) for name, text in found if OURS in text)


def _read_folder(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        if folder.is_file():
            yield from _read_archive(folder)
            return
        for path in folder.glob("*-info/entry_points.txt"):
            yield path.parent.name, path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return


def _read_archive(file: Path) -> Iterator[tuple[str, str]]:
    import zipfile

    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if found := _METADATA.fullmatch(name):
                yield found[1], archive.read(name).decode("utf-8", "replace")


def _parse_section(text: str, group: str) -> Iterator[tuple[str, str]]:
    within = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            within = line == f"[{group}]"
        elif within and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()  # older formats have extras in brackets

"""Recipe files: TOML → frozen data.  Whatever is wrong is named with file, key and expected kind.

Keys are the fields of installers.recipes.recipe, and those of likeness.py.  A value stands alone or as {value, source,
seed_value, reason}; a table's own `source` speaks for every value in it that names none.  In a list of arguments
{value = ["--lr", "1e-4"], ...} annotates an option together with what belongs to it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.toml_file import UNIONS
from installers.recipes import likeness
from installers.recipes.recipe import Driver, Note, Recipe
from installers.recipes.recipe_notes import item_key

SIZE_LIMIT = 256 << 10  # bytes; ours have 20 KB
OURS = Path(__file__).parent
_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
COMPARE = "compare with a file of ours: envcheck recipes show tiny-cpu names it"
T = TypeVar("T")


def load(path: Path) -> Recipe:
    """The recipe in `path`; UsageError when it is not one."""
    from installers.recipes.recipe_rules import check

    text = toml_file.text(path, SIZE_LIMIT, "recipe")
    try:
        check(recipe := parse(text, str(path)))
    except UsageError as err:
        raise UsageError(err.message, err.next_step or COMPARE) from None
    return recipe


def parse(text: str, file: str) -> Recipe:
    """The recipe in `text`, its rules not yet checked; `file` only names it."""
    table = toml_file.table(text, file, COMPARE)
    return from_table(table, file)


def from_table(table: Mapping[str, Any], file: str) -> Recipe:
    """The recipe in what TOML made of a file."""
    loader = _RecipeLoader(file)
    whole = likeness.expanded(table, functools.partial(_named, file), file)
    return loader.record(Recipe, whole, "", notes=loader.notes, file=file)


def _named(file: str, name: str) -> Mapping[str, Any]:
    """The table of another recipe: NAME.toml in the same folder, else one of ours."""
    if not _FILE_NAME.fullmatch(name):
        raise UsageError(f"{file}: like: {name[:80]!r} is no name of a recipe")
    path = next((f for f in (Path(file).parent / f"{name}.toml", OURS / f"{name}.toml") if f.is_file()), None)
    if path is None:
        raise UsageError(f"{file}: like: there is no recipe {name!r}", f"put {name}.toml beside the file that names it")
    return toml_file.table(toml_file.text(path, SIZE_LIMIT, "recipe"), str(path), COMPARE)


def load_drivers(path: Path) -> tuple[Driver, ...]:
    """The [[drivers]] of a file that holds nothing else; UsageError when it is not such a file."""
    from installers.recipes.driver_rules import check

    table = toml_file.table(toml_file.text(path, SIZE_LIMIT, "table of drivers"), str(path), "compare with ours")
    drivers = _RecipeLoader(str(path)).record(_DriverFile, table, "").drivers
    check(drivers, str(path))
    return drivers


@dataclass(frozen=True)
class _DriverFile:
    drivers: tuple[Driver, ...]


@dataclass(frozen=True)
class _Annotated:
    """What may stand in the place of a plain value."""

    value: Any
    source: str = ""
    seed_value: str | int | float | bool | None = None
    reason: str = ""


class _RecipeLoader(toml_file.RecordLoader):
    """Keeps the notes beside the values; `source` is what the innermost table says for all of its values."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.notes: dict[str, Note] = {}
        self.source = ""

    def record(self, cls: type[T], found: object, where: str, **own: Any) -> T:
        if not isinstance(found, dict) or "source" in toml_file.record_kinds(cls):
            return super().record(cls, found, where, **own)
        source, values = self._split_source(found, where)
        made: T = self._with_source(source, super().record, cls, values, where, **own)
        return made

    def mapping(self, kind: Any, found: object, where: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self.wrong(where, "a table", found)
        source, values = self._split_source(found, where)
        made: Mapping[str, Any] = self._with_source(source, super().mapping, kind, values, where)
        return made

    def value(self, kind: Any, found: object, where: str) -> Any:
        """A value; the note beside a plain one is kept under its key."""
        if not _takes_note(kind):
            return super().value(kind, found, where)
        note = Note(self.source)
        if isinstance(found, dict) and "value" in found:
            note, found = self._note(found, where), found["value"]
        if note.source or note.reason:
            self.notes[where] = note
        return self._with_source(note.source, super().value, kind, found, where)

    def items(self, kind: Any, found: list[Any], where: str) -> Iterator[Any]:
        """An item {value = [...]} of a list of texts stands for several items, noted under the first of them."""
        for number, item in enumerate(found):
            if kind is str:
                yield from self._texts(item, where, f"{where}[{number}]")
            else:
                yield self.value(kind, item, item_key(where, number, item))

    def _texts(self, item: Any, where: str, place: str) -> list[str]:
        note = self._note(item, place) if isinstance(item, dict) and "value" in item else None
        inner = item["value"] if note else item
        texts = [self.scalar(str, part, place) for part in (inner if note and isinstance(inner, list) else [inner])]
        if note and texts:
            self.notes[toml_file.join_key(where, texts[0])] = note
        return texts

    def _note(self, found: dict[str, Any], where: str) -> Note:
        said = toml_file.load_record(_Annotated, found, self.file, where)
        return Note(said.source or self.source, said.seed_value, said.reason)

    def _split_source(self, found: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
        """What the table says as the source of its values, and the values."""
        source = self.scalar(str, found.get("source", self.source), toml_file.join_key(where, "source"))
        return source, {key: value for key, value in found.items() if key != "source"}

    def _with_source(self, source: str, read: Callable[..., Any], *arguments: Any, **own: Any) -> Any:
        before, self.source = self.source, source
        try:
            return read(*arguments, **own)
        finally:
            self.source = before


def _takes_note(kind: Any) -> bool:
    """Tables carry no note of their own: their values do; of a union the kind that is chosen does."""
    return not dataclasses.is_dataclass(kind) and typing.get_origin(kind) not in (*UNIONS, collections.abc.Mapping)

"""Load recipe files: TOML to frozen data classes.  Errors name the file, the key and the expected type.

Keys are the fields of installers.recipes.recipe and of inheritance.py.  A value is plain or {value, source, published,
reason}; the `source` of a table applies to all its values that have none.  In a list of arguments
{value = ["--lr", "1e-4"], ...} annotates an option together with its arguments.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envcheck.core import table_pack, toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.toml_file import UNIONS
from installers.recipes import inheritance
from installers.recipes.recipe import DriverInstaller, Recipe, SourceNote
from installers.recipes.value_notes import item_key

SIZE_LIMIT = 256 << 10  # bytes; the built-in recipes have 20 KB
OURS = Path(__file__).parent
_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
COMPARE = _("compare it with a built-in recipe; `envcheck recipes show tiny-cpu --toml` prints one")
T = TypeVar("T")


def load_recipe(path: Path) -> Recipe:
    """Return the recipe in `path`; raise UsageError if it is not a valid one."""
    from installers.recipes.validation import check_recipe

    text = read_recipe_text(path)
    try:
        check_recipe(recipe := parse_recipe(text, str(path)))
    except UsageError as err:
        raise UsageError(err.message, err.next_step or COMPARE) from None
    return recipe


def read_recipe_text(path: Path) -> str:
    """Return the text of a recipe file, with its comments."""
    return toml_file.read_text(path, SIZE_LIMIT, _("recipe"))


def parse_recipe(text: str, file: str) -> Recipe:
    """Return the recipe in `text` without validating its rules; `file` is only quoted in errors."""
    table = toml_file.parse_table(text, file, COMPARE)
    return build_recipe(table, file)


def build_recipe(table: Mapping[str, Any], file: str) -> Recipe:
    """Return the recipe in a parsed TOML table, with inherited values, without validating its rules."""
    loader = _RecipeLoader(file)
    whole = inheritance.expand_table(table, _load_base_table, file)
    return loader.read_record(Recipe, whole, "", notes=loader.notes, file=file)


def _load_base_table(name: str, file: str) -> tuple[Mapping[str, Any], str]:
    """Return the table of another recipe and its file: NAME.toml in the folder of `file`, else the built-in one.

    A recipe that replaces a built-in one of its own name can be like that one.
    """
    if not _FILE_NAME.fullmatch(name):
        raise UsageError(_("{file}: like: {name!r} is not a valid recipe name", file=file, name=name[:80]))
    own = Path(file)
    near = [own.parent / f"{name}.toml"] if own.name != f"{name}.toml" else []
    path = next((each for each in (*near, OURS / f"{name}.toml") if table_pack.has_file(each) and each != own), None)
    if path is None:
        raise UsageError(
            _("{file}: like: unknown recipe {name!r}", file=file, name=name),
            _("save {name}.toml in the same folder as this file", name=name),
        )
    return toml_file.parse_table(read_recipe_text(path), str(path), COMPARE), str(path)


def load_drivers(path: Path) -> tuple[DriverInstaller, ...]:
    """Return the [[drivers]] of a file with nothing else; raise UsageError if it is not a valid one."""
    from installers.recipes.driver_rules import check_drivers

    drivers = _RecipeLoader(str(path)).read_record(_DriverTable, toml_file.load_own_table(path), "").drivers
    check_drivers(drivers, str(path))
    return drivers


@dataclass(frozen=True)
class _DriverTable:
    drivers: tuple[DriverInstaller, ...]


@dataclass(frozen=True)
class _Annotated:
    """A table in place of a plain value: the value with its note."""

    value: Any
    source: str = ""
    published: str | int | float | bool | None = None
    reason: str = ""


class _RecipeLoader(toml_file.RecordLoader):
    """Collects the notes while it reads values; `source` is that of the innermost table that has one."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.notes: dict[str, SourceNote] = {}
        self.source = ""

    def read_record(self, cls: type[T], found: object, where: str, **own: Any) -> T:
        if not isinstance(found, dict) or "source" in toml_file.list_record_kinds(cls):
            return super().read_record(cls, found, where, **own)
        source, values = self._split_source(found, where)
        made: T = self._with_source(source, super().read_record, cls, values, where, **own)
        return made

    def read_mapping(self, kind: Any, found: object, where: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self.wrong_kind_error(where, _("a table"), found)
        source, values = self._split_source(found, where)
        made: Mapping[str, Any] = self._with_source(source, super().read_mapping, kind, values, where)
        return made

    def read_value(self, kind: Any, found: object, where: str) -> Any:
        """Return a value; the note of a plain value is stored under its key."""
        if not _takes_note(kind):
            return super().read_value(kind, found, where)
        note = SourceNote(self.source)
        if isinstance(found, dict) and "value" in found:
            note, found = self._load_note(found, where), found["value"]
        if note.source or note.reason:
            self.notes[where] = note
        return self._with_source(note.source, super().read_value, kind, found, where)

    def read_items(self, kind: Any, found: list[Any], where: str) -> Iterator[Any]:
        """Yield the items of a list; in a list of texts, {value = [...]} is several items with one note."""
        for number, item in enumerate(found):
            if kind is str:
                yield from self._load_texts(item, where, f"{where}[{number}]")
            else:
                yield self.read_value(kind, item, item_key(where, number, item))

    def _load_texts(self, item: Any, where: str, place: str) -> list[str]:
        note = self._load_note(item, place) if isinstance(item, dict) and "value" in item else None
        inner = item["value"] if note else item
        texts = [
            self.read_scalar(str, part, place) for part in (inner if note and isinstance(inner, list) else [inner])
        ]
        if note and texts:
            self.notes[toml_file.join_key(where, texts[0])] = note
        return texts

    def _load_note(self, found: dict[str, Any], where: str) -> SourceNote:
        note = toml_file.load_record(_Annotated, found, self.file, where)
        return SourceNote(note.source or self.source, note.published, note.reason)

    def _split_source(self, found: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
        """Return the source that applies to the table's values, and the values."""
        source = self.read_scalar(str, found.get("source", self.source), toml_file.join_key(where, "source"))
        return source, {key: value for key, value in found.items() if key != "source"}

    def _with_source(self, source: str, read: Callable[..., Any], *arguments: Any, **own: Any) -> Any:
        before, self.source = self.source, source
        try:
            return read(*arguments, **own)
        finally:
            self.source = before


def _takes_note(kind: Any) -> bool:
    """Return whether a value of this type has a note: tables have none, their values do."""
    return not dataclasses.is_dataclass(kind) and typing.get_origin(kind) not in (*UNIONS, collections.abc.Mapping)

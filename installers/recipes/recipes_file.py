"""Recipe files: TOML → frozen data.  Whatever is wrong is named with file, key and expected kind.

Keys are the fields of installers.recipes.recipe, and those of likeness.py.  A value stands alone or as {value, source,
seed_value, reason}; a table's own `source` speaks for every value in it that names none.  In a list of arguments
{value = ["--lr", "1e-4"], ...} annotates an option together with what belongs to it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import functools
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from installers.recipes import likeness
from installers.recipes.recipe import Driver, Note, Recipe
from installers.recipes.recipe_notes import item_key

SIZE_LIMIT = 256 << 10  # bytes; ours have 20 KB
TEXT_LIMIT = 4096
OURS = Path(__file__).parent
_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ANNOTATED = {"value", "source", "seed_value", "reason"}
_OURS = {"notes", "file"}  # fields of Recipe that the loader fills in
COMPARE = "compare with a file of ours: envcheck recipes show tiny-cpu names it"
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


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
    reader = _Reader(file)
    whole = likeness.expanded(table, functools.partial(_named, file), file)
    recipe: Recipe = reader.table(Recipe, whole, "", "")
    return dataclasses.replace(recipe, notes=reader.notes, file=file)


def _named(file: str, name: str) -> Mapping[str, Any]:
    """The table of another recipe: NAME.toml in the same folder, else one of ours."""
    if not _FILE_NAME.fullmatch(name):
        raise UsageError(f"{file}: like: {name[:80]!r} is no name of a recipe")
    path = next((f for f in (Path(file).parent / f"{name}.toml", OURS / f"{name}.toml") if f.is_file()), None)
    if path is None:
        raise UsageError(f"{file}: like: there is no recipe {name!r}", f"put {name}.toml beside the file that names it")
    return toml_file.table(toml_file.text(path, SIZE_LIMIT, "recipe"), str(path), COMPARE)


def of_kind(cls: type[Any], table: Mapping[str, Any], file: str) -> Any:
    """Another frozen dataclass read in the same way, its notes left behind: a lock, a bundle's head."""
    return _Reader(file).table(cls, table, "", "")


def load_drivers(path: Path) -> tuple[Driver, ...]:
    """The [[drivers]] of a file that holds nothing else; UsageError when it is not such a file."""
    from installers.recipes.driver_rules import check

    table = toml_file.table(toml_file.text(path, SIZE_LIMIT, "table of drivers"), str(path), "compare with ours")
    for key in table:
        if key != "drivers":
            raise UsageError(f"{path}: {_short(ascii(key), 80)}: there is no such key", "the only key here is drivers")
    found: tuple[Driver, ...] = _Reader(str(path)).value(tuple[Driver, ...], table.get("drivers", []), "drivers", "")
    check(found, str(path))
    return found


class _Reader:
    """Walks a TOML table along the dataclasses' own types; gathers the notes on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.notes: dict[str, Note] = {}

    def table(self, cls: type[Any], found: Any, where: str, source: str) -> Any:
        """One dataclass from one table."""
        if not isinstance(found, dict):
            raise self.wrong(where, "a table", found)
        kinds = _fields(typing.cast(Hashable, cls))
        own = found.get("source", source) if "source" not in kinds else source
        _scalar(self, str, own, _dot(where, "source"), "")
        for key in found:
            if key not in kinds and key != "source":
                raise UsageError(f"{self.file}: {_dot(where, key)}: there is no such key", _nearest(key, kinds))
        for each in dataclasses.fields(cls):
            required = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
            if required and each.name not in found:
                raise UsageError(
                    f"{self.file}: {_dot(where, each.name)}: missing ({_words(kinds[each.name])} expected)"
                )
        values = {k: self.value(kinds[k], found[k], _dot(where, k), own) for k in found if k in kinds}
        return cls(**values)

    def value(self, kind: Any, found: Any, where: str, source: str) -> Any:
        """One value of `kind`: the typing form chooses the reader."""
        if dataclasses.is_dataclass(kind):
            return self.table(typing.cast("type[Any]", kind), found, where, source)
        form, inner = typing.get_origin(kind), typing.get_args(kind)
        if form in (types.UnionType, typing.Union):
            return self.value(next(k for k in inner if k is not type(None)), found, where, source)
        if form is collections.abc.Mapping:
            return self.mapping(inner[1], found, where, source)
        return self.annotated(_list if form is tuple else _scalar, kind, found, where, source)

    def mapping(self, kind: Any, found: Any, where: str, source: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self.wrong(where, "a table", found)
        own = found.get("source", source)
        for text in (own, *found):
            _scalar(self, str, text, where, "")
        return {k: self.value(kind, v, _dot(where, k), own) for k, v in found.items() if k != "source"}

    def annotated(self, read: Callable[..., Any], kind: Any, found: Any, where: str, source: str) -> Any:
        """The plain value; the note beside it is kept under the value's key."""
        note = Note(source)
        if isinstance(found, dict) and "value" in found:
            note = self.note(found, where, source)
            found = found["value"]
        if note.source or note.reason:
            self.notes[where] = note
        return read(self, kind, found, where, note.source)

    def note(self, found: Mapping[str, Any], where: str, source: str) -> Note:
        for key in found:
            if key not in _ANNOTATED:
                raise UsageError(f"{self.file}: {_dot(where, key)}: there is no such key", _nearest(key, _ANNOTATED))
        words = {key: found.get(key, default) for key, default in (("source", source), ("reason", ""))}
        for key, text in words.items():
            _scalar(self, str, text, _dot(where, key), "")
        if not isinstance(found.get("seed_value"), (str, int, float, type(None))):
            raise self.wrong(_dot(where, "seed_value"), "text, a number or true or false", found["seed_value"])
        if isinstance(found.get("seed_value"), str):
            _scalar(self, str, found["seed_value"], _dot(where, "seed_value"), "")
        return Note(words["source"], found.get("seed_value"), words["reason"])

    def wrong(self, where: str, expected: str, found: Any) -> UsageError:
        """The sentence for a value of the wrong kind."""
        return UsageError(f"{self.file}: {where or 'the file'}: expected {expected}, found {_shown(found)}")


def _scalar(reader: _Reader, kind: Any, found: Any, where: str, _source: str) -> Any:
    """Text, a number, or a truth; 1 is no truth and true is no number."""
    fits = {str: isinstance(found, str), bool: isinstance(found, bool)}
    number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if not fits.get(kind, number and (kind is float or isinstance(found, int))):
        raise reader.wrong(where, _KINDS[kind], found)
    if number and not 0 <= found < 1e15:  # neither nan nor inf
        raise reader.wrong(where, f"{_KINDS[kind]} from 0 up", found)
    if isinstance(found, str) and (len(found) > TEXT_LIMIT or not found.isprintable()):
        raise reader.wrong(where, f"one line of printable text, {TEXT_LIMIT} characters at most", found)
    return float(found) if kind is float else found


def _list(reader: _Reader, kind: Any, found: Any, where: str, source: str) -> tuple[Any, ...]:
    """A list; an item {value = [...]} of a list of texts stands for several items, noted under the first of them."""
    if not isinstance(found, list):
        raise reader.wrong(where, _words(kind), found)
    inner = typing.get_args(kind)[0]
    values: list[Any] = []
    for number, item in enumerate(found):
        key = f"{where}[{number}]"
        if inner is str:
            values += _texts(reader, item, where, key, source)
        else:
            values.append(reader.value(inner, item, item_key(where, number, item), source))
    return tuple(values)


def _texts(reader: _Reader, item: Any, where: str, key: str, source: str) -> list[str]:
    whole = isinstance(item, dict) and "value" in item
    inner = item["value"] if whole else item
    parts = inner if whole and isinstance(inner, list) else [inner]
    texts = [_scalar(reader, str, part, key, source) for part in parts]
    if whole and texts:
        reader.notes[_dot(where, texts[0])] = reader.note(item, key, source)
    return texts


@functools.cache
def _fields(cls: Hashable) -> dict[str, Any]:
    return {k: v for k, v in typing.get_type_hints(cls).items() if not (cls is Recipe and k in _OURS)}


def _words(kind: Any) -> str:
    """The kind in a person's words."""
    form, inner = typing.get_origin(kind), typing.get_args(kind)
    if form in (types.UnionType, typing.Union):
        return _words(next(k for k in inner if k is not type(None)))
    if form is tuple:
        return (
            "a list of texts"
            if inner[0] is str
            else "a list of tables"
            if dataclasses.is_dataclass(inner[0])
            else "a list of lists"
        )
    return _KINDS.get(kind, "a table")


def _shown(found: Any) -> str:
    words = {
        dict: "a table",
        list: "a list",
        bool: "true or false",
        str: "the text",
        int: "the number",
        float: "the number",
    }
    name = words.get(type(found), type(found).__name__)
    if isinstance(found, int) and found.bit_length() > 64:  # Python refuses to print those of thousands of digits
        return f"{name}, of {found.bit_length()} bits"
    return f"{name} {_short(repr(found), 60)}" if isinstance(found, (str, int, float)) else name


def _short(what: object, limit: int = 200) -> str:
    text = str(what)
    return text if len(text) <= limit else text[:limit] + "..."


def _dot(where: str, key: str) -> str:
    shown = _short(key if key.isprintable() else ascii(key), 80)
    return f"{where}.{shown}" if where else shown


def _nearest(key: str, known: collections.abc.Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(key[:80], names, 1)
    return f"did you mean {near[0]}?" if near else f"the keys here are {', '.join(names)}"

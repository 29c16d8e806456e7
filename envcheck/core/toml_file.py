"""TOML files, which may come from strangers, and frozen dataclasses from their tables, along the dataclass's own types.

Files are bounded and UTF-8; whatever is wrong is named in one sentence with file, key and kind.  The types that a field
may have: text, numbers, bool, date, Enum, Literal, dataclasses, `tuple[X, ...]`, `tuple[X, Y]`, `frozenset[X]`,
`Mapping[str, X]`, unions of these, Any; and Given[X], OneOrMany[X], Annotated[X, Key(...)] or [X, Parsed(...)].
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from envcheck.core.errors import UsageError

try:
    import tomli as tomllib  # compiled where there is a wheel, then four times as fast as Python's own
except ImportError:  # a pod, or a host that has Python alone
    import tomllib  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")
TEXT_LIMIT = 4096  # characters
OWN_LIMIT = 1 << 20  # bytes of a file that ships with envcheck
NUMBER_LIMIT = 1e15
UNIONS = (types.UnionType, typing.Union)  # what typing.get_origin says of X | Y
_SCALARS: dict[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false",
    datetime.date: "a day such as 2027-01-31, without quotes",
}  # fmt: skip
_LISTS = {str: "a list of texts", list: "a list of lists", dict: "a list of tables"}
_FOUND = {
    str: "the text",
    int: "the number",
    float: "the number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}
_GIVEN, _ONE_OR_MANY = "given by the caller", "one or many"
Given = Annotated[T, _GIVEN]  # a field that no file may set: the caller of `load_record` gives it (a table's name)
OneOrMany = Annotated[tuple[T, ...], _ONE_OR_MANY]  # a value that is no list means a list of it alone


@dataclasses.dataclass(frozen=True)
class Key:
    """Annotated[X, Key("name")]: the field's name in the file, such as a word that Python keeps for itself."""

    name: str


@dataclasses.dataclass(frozen=True)
class Parsed:
    """Annotated[X, Parsed(function)]: the file holds text; `function` makes the X, or says why not in a ValueError."""

    function: Callable[[str], Any]


def text(path: Path, limit: int, what: str) -> str:
    """What stands in the file, at most `limit` bytes; `what` it should be only names it in sentences."""
    try:
        if not path.is_file():
            raise UsageError(f"{path}: not a file", f"name the {what} itself; ls -l {path.parent}")
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {(err.strerror or str(err)).lower()}", f"ls -l {path}") from None
    if len(raw) > limit:
        raise UsageError(f"{path}: larger than {limit >> 10} KiB: this is no {what}", f"name the {what} itself")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: not UTF-8 text: {_reason(err)}", f"write the {what} as UTF-8") from None


def table(text: str, file: str, next_step: str) -> dict[str, Any]:
    """The table that the text holds; `file` only names it."""
    try:
        read: dict[str, Any] = tomllib.loads(text)
        return read
    except (ValueError, RecursionError) as err:  # TOMLDecodeError, or a number of thousands of digits
        raise UsageError(f"{file}: this is not TOML: {_reason(err)}", next_step) from None


def _reason(err: Exception) -> str:
    return str(err).splitlines()[0][:120] if str(err) else type(err).__name__


def load_record(cls: type[T], table: object, file: str, where: str = "", **own: Any) -> T:
    """The dataclass `cls` from a table of the file, at the key `where`; `own` are its fields that no file may set."""
    return RecordLoader(file).record(cls, table, where, **own)


@functools.cache
def own_table(path: Path) -> Mapping[str, Any]:
    """The table of a file that ships with envcheck, read once."""
    return table(text(path, OWN_LIMIT, "table"), f"{path.parent.name}/{path.name}", "install envcheck again")


def own_record(cls: type[T], path: Path) -> T:
    """A file that ships with envcheck as one record."""
    return own_part(cls, path, own_table(path), "")


def own_records(cls: type[T], path: Path, **own: Any) -> dict[str, T]:
    """The tables of a file that ships with envcheck, by their names, which the records have as `name`."""
    return {name: own_part(cls, path, part, name, name=name, **own) for name, part in own_table(path).items()}


def own_part(cls: type[T], path: Path, part: object, where: str, **own: Any) -> T:
    """A table of a file that ships with envcheck, as a record: its texts may be long, its numbers below 0."""
    return RecordLoader(f"{path.parent.name}/{path.name}", bounded=False).record(cls, part, where, **own)


class RecordLoader:
    """Walks tables along the types of dataclasses.  UsageError names file, key, what is expected and what was found.

    `bounded`: a text is one printable line of TEXT_LIMIT characters at most, a number is from 0 up.
    """

    def __init__(self, file: str, bounded: bool = True) -> None:
        self.file = file
        self.bounded = bounded

    def record(self, cls: type[T], found: object, where: str, **own: Any) -> T:
        """One dataclass from one table."""
        if not isinstance(found, dict):
            raise self.wrong(where, "a table", found)
        kinds = record_kinds(cls)
        for name in found:
            if name not in kinds:
                raise UsageError(
                    f"{self.file}: {join_key(where, name)}: there is no such key", nearest_key(name, kinds)
                )
        for name, kind in kinds.items():
            if kind.required and name not in found:
                raise UsageError(f"{self.file}: {join_key(where, name)}: missing ({describe_kind(kind.kind)} expected)")
        above = f"{where}." if where else ""
        read = {kinds[name].field: self.value(kinds[name].kind, each, above + name) for name, each in found.items()}
        return cls(**read, **own)

    def value(self, kind: Any, found: object, where: str) -> Any:
        """One value of `kind`: the typing form chooses the reader."""
        if kind in _SCALARS or kind is Any:
            return self.scalar(kind, found, where)
        form, inner = _form(kind)
        if form is None:
            if dataclasses.is_dataclass(kind):
                return self.record(typing.cast("type[Any]", kind), found, where)
            return self.choice(kind, found, where)
        if form is Annotated:
            return self.annotated(inner[0], inner[1], found, where)
        if form in UNIONS:
            return self.value(_fitting(inner, found), found, where)
        if form is typing.Literal:
            return self.literal(inner, found, where)
        if form is collections.abc.Mapping:
            return self.mapping(inner[1], found, where)
        if not isinstance(found, list):
            raise self.wrong(where, describe_kind(kind), found)
        if form is tuple and inner[-1] is not Ellipsis:
            return self.fixed(inner, found, where)
        made = self.items(inner[0], found, where)
        return tuple(made) if form is tuple else frozenset(made)

    def items(self, kind: Any, found: list[Any], where: str) -> Iterator[Any]:
        """Each entry of a list."""
        return (self.value(kind, each, f"{where}[{number}]") for number, each in enumerate(found))

    def fixed(self, kinds: tuple[Any, ...], found: list[Any], where: str) -> tuple[Any, ...]:
        """A list of a known length: tuple[X, Y]."""
        if len(found) != len(kinds):
            raise self.wrong(where, f"a list of {len(kinds)}", found)
        return tuple(
            self.value(kind, each, f"{where}[{n}]") for n, (kind, each) in enumerate(zip(kinds, found, strict=True))
        )

    def mapping(self, kind: Any, found: object, where: str) -> Mapping[str, Any]:
        """A table whose keys are the file's own."""
        if not isinstance(found, dict):
            raise self.wrong(where, "a table", found)
        return {self.scalar(str, k, where): self.value(kind, v, join_key(where, k)) for k, v in found.items()}

    def annotated(self, kind: Any, mark: object, found: object, where: str) -> Any:
        """A value of which `Annotated` says more."""
        if not isinstance(mark, Parsed):
            many = mark == _ONE_OR_MANY and not isinstance(found, list)
            return self.value(kind, [found] if many else found, where)
        try:
            return mark.function(self.scalar(str, found, where))
        except ValueError as err:
            raise UsageError(f"{self.file}: {where}: {err}") from None

    def choice(self, kind: type[enum.Enum], found: object, where: str) -> enum.Enum:
        """A member of an Enum, by its value; of one whose values are numbers, by its name."""
        members = _members(kind)
        return members[self.literal(tuple(members), found, where)]

    def literal(self, words: tuple[Any, ...], found: object, where: str) -> Any:
        """One of some words."""
        if isinstance(found, (dict, list)) or found not in words:
            near = nearest_key(found, words) if isinstance(found, str) else ""
            raise UsageError(f"{self.file}: {where}: expected {_listed(words)}, found {show_value(found)}", near)
        return found

    def scalar(self, kind: Any, found: object, where: str) -> Any:
        """Text, a number, a truth, a day; 1 is no truth, true is no number, a time of day is no day."""
        if kind is Any:
            return found
        if type(found) is not kind and not (kind is float and type(found) is int):
            raise self.wrong(where, _SCALARS[kind], found)
        if not self.bounded:
            pass
        elif isinstance(found, str):
            if len(found) > TEXT_LIMIT or not found.isprintable():
                raise self.wrong(where, f"one line of printable text, {TEXT_LIMIT} characters at most", found)
        elif isinstance(found, (int, float)) and not 0 <= found < NUMBER_LIMIT:  # neither nan nor inf
            raise self.wrong(where, f"{_SCALARS[kind]} from 0 up", found)
        return float(typing.cast(float, found)) if kind is float else found

    def wrong(self, where: str, expected: str, found: object) -> UsageError:
        """The sentence for a value of the wrong kind."""
        return UsageError(f"{self.file}: {where or 'the file'}: expected {expected}, found {show_value(found)}")


@dataclasses.dataclass(frozen=True)
class _Kind:
    """What a record's field takes: the field's name, its type, and whether the file must have it."""

    field: str
    kind: Any
    required: bool


def record_kinds(cls: Any) -> Mapping[str, _Kind]:
    """By the key in the file; fields that no file may set are not among them."""
    return _kinds_of(cls)


@functools.cache
def _kinds_of(cls: Any) -> Mapping[str, _Kind]:
    kinds = typing.get_type_hints(cls, include_extras=True)
    marks: dict[str, Any] = {name: getattr(kind, "__metadata__", ("",))[0] for name, kind in kinds.items()}
    return {
        getattr(marks[each.name], "name", each.name): _Kind(each.name, kinds[each.name], _is_required(each))
        for each in dataclasses.fields(cls)
        if marks[each.name] != _GIVEN
    }


def _is_required(each: dataclasses.Field[Any]) -> bool:
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


@functools.cache
def _form(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(kind), typing.get_args(kind)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _members(kind: type[enum.Enum]) -> dict[str, enum.Enum]:
    """By the word that a file has for them."""
    return {each.name if issubclass(kind, enum.IntEnum) else each.value: each for each in kind}


def _fitting(kinds: tuple[Any, ...], found: object) -> Any:
    """The first kind of a union that the value can be; the first of all where none fits, for the sentence."""
    possible = [kind for kind in kinds if kind is not type(None)]
    return next((kind for kind in possible if _raw_type(kind) is type(found)), possible[0])


def _raw_type(kind: Any) -> Any:
    """What TOML's reader makes of a value of that kind."""
    form = typing.get_origin(kind)
    if form is None:
        return dict if dataclasses.is_dataclass(kind) else kind
    return {collections.abc.Mapping: dict, typing.Literal: str}.get(form, list)


def describe_kind(kind: Any) -> str:
    """The kind in a person's words."""
    form, inner = typing.get_origin(kind), typing.get_args(kind)
    if form is Annotated:
        return "text" if isinstance(inner[1], Parsed) else describe_kind(inner[0])
    if form in UNIONS:
        return describe_kind(next(k for k in inner if k is not type(None)))
    if form is typing.Literal:
        return _listed(inner)
    if form in (tuple, frozenset):
        return _LISTS.get(_raw_type(inner[0]), "a list of numbers")
    if _is_enum(kind):
        return _listed(tuple(_members(kind)))
    return _SCALARS.get(kind, "a table")


def _listed(words: tuple[Any, ...]) -> str:
    return f"one of {', '.join(map(str, words))}"


def show_value(found: object) -> str:
    """A value for a sentence: its kind, and what it is where that is short."""
    name = _FOUND.get(type(found), "a day or a time")
    if isinstance(found, bool):
        return name
    if isinstance(found, int) and found.bit_length() > 64:  # Python refuses to print those of thousands of digits
        return f"{name}, of {found.bit_length()} bits"
    return f"{name} {shorten(repr(found), 60)}" if isinstance(found, (str, int, float)) else name


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, and dots where there were more."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def join_key(where: str, key: str) -> str:
    """A key's place in the file, fit to be printed."""
    shown = shorten(key if key.isprintable() else ascii(key), 80)
    return f"{where}.{shown}" if where else shown


def nearest_key(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The next step for a word that is none of those known: the nearest, else what the caller says, else all."""
    import difflib

    words = sorted(known)
    near = difflib.get_close_matches(name[:80], words, 1)
    return f"did you mean {near[0]}?" if near else otherwise or f"the keys here are {', '.join(words)}"

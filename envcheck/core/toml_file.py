"""Reads TOML files, which may be untrusted, into frozen dataclasses, guided by the field types.

Files are limited in size and must be UTF-8; an error names file, key and expected kind.  Supported field types: text,
numbers, bool, date, Enum, Literal, dataclasses, `tuple[X, ...]`, `tuple[X, Y]`, `frozenset[X]`, `Mapping[str, X]`,
unions of these, Any; and Given[X], OneOrMany[X], Annotated[X, FileKey(...)] or [X, ParsedText(...)].
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

from envcheck.core import suggestions, table_pack
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import NOTHING, Message, _, join, verbatim

try:
    import tomli as tomllib  # compiled if there is a wheel, four times as fast as the standard library's
except ImportError:  # a pod, or a host with Python only
    import tomllib  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")
TEXT_LIMIT = 4096  # characters
OWN_LIMIT = 1 << 20  # bytes of a file that ships with envcheck
NUMBER_LIMIT = 1e15
UNIONS = (types.UnionType, typing.Union)  # the results of typing.get_origin for X | Y
_SCALARS: dict[Any, Message] = {
    str: _('text'), int: _('a whole number'), float: _('a number'), bool: _('true or false'),
    datetime.date: _('a date such as 2027-01-31, without quotes'),
}  # fmt: skip
_LISTS = {str: _("a list of texts"), list: _("a list of lists"), dict: _("a list of tables")}
_FOUND = {
    str: _("the text"),
    int: _("the number"),
    float: _("the number"),
    bool: _("true or false"),
    dict: _("a table"),
    list: _("a list"),
}
_GIVEN, _ONE_OR_MANY = "given by the caller", "one or many"
Given = Annotated[T, _GIVEN]  # a field that no file can set: the caller of `load_record` passes it (a table's name)
OneOrMany = Annotated[tuple[T, ...], _ONE_OR_MANY]  # a single value means a list with one entry


@dataclasses.dataclass(frozen=True)
class FileKey:
    """Annotated[X, FileKey("name")]: the name of the field in the file, if it is a Python keyword."""

    name: str


@dataclasses.dataclass(frozen=True)
class ParsedText:
    """Annotated[X, ParsedText(function)]: the file has text; `function` returns the X or raises ValueError with the
    reason."""

    function: Callable[[str], Any]


def read_text(path: Path, limit: int, what: Message) -> str:
    """Return the content of a UTF-8 file of at most `limit` bytes; `what` names the kind of file in errors."""
    try:
        if not path.is_file():
            if isinstance(packed := table_pack.find_packed(path), str):
                return packed
            raise UsageError(
                _("{path}: not a file", path=path) if path.exists() else _("{path} does not exist", path=path),
                _("specify an existing {what} file", what=what),
            )
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as err:
        raise UsageError(
            _("cannot read {path}: {strerror}", path=path, strerror=describe_os_error(err)),
            verbatim(f"ls -l {path}"),
        ) from None
    if len(raw) > limit:
        raise UsageError(
            _("{path}: larger than {limit} KiB, too large for a {what}", path=path, limit=limit >> 10, what=what),
            _("specify the {what} file", what=what),
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as err:
        raise UsageError(
            _("{path}: not UTF-8 text: {err}", path=path, err=_describe_error(err)),
            _("save the {what} as UTF-8", what=what),
        ) from None


def parse_table(text: str, file: str, next_step: Message) -> dict[str, Any]:
    """Return the table of a TOML text; `file` is its name in errors. Raises UsageError."""
    try:
        read: dict[str, Any] = tomllib.loads(text)
        return read
    except (ValueError, RecursionError) as err:  # TOMLDecodeError, or a number of thousands of digits
        raise UsageError(_("{file}: not valid TOML: {err}", file=file, err=_describe_error(err)), next_step) from None


def _describe_error(err: Exception) -> str:
    return str(err).splitlines()[0][:120] if str(err) else type(err).__name__


def _error_message(err: Exception) -> str:
    """Return the message that the error was raised with, which can be translated, or its text."""
    return err.args[0] if err.args and isinstance(err.args[0], str) else str(err)


def load_record(cls: type[T], table: object, file: str, where: str = "", **own: Any) -> T:
    """Return an instance of the dataclass `cls` from a table; `where` is the table's key, `own` are fields that no file
    sets."""
    return RecordLoader(file).read_record(cls, table, where, **own)


def list_files(folder: Path) -> list[Path]:
    """Return the TOML files of a folder, sorted; also those that a wheel has packed."""
    return sorted({*folder.glob("*.toml"), *table_pack.list_packed(folder)})


@functools.cache
def load_own_table(path: Path) -> Mapping[str, Any]:
    """Return the table of a file that ships with envcheck; it is read only once."""
    if not path.is_file() and isinstance(packed := table_pack.find_packed(path), dict):
        return packed
    return parse_table(
        read_text(path, OWN_LIMIT, _("table")), f"{path.parent.name}/{path.name}", _("reinstall envcheck")
    )


def load_own_record(cls: type[T], path: Path) -> T:
    """Return the content of a file that ships with envcheck as one record."""
    return load_own_part(cls, path, load_own_table(path), "")


def load_own_records(cls: type[T], path: Path, **own: Any) -> dict[str, T]:
    """Return the tables of a file that ships with envcheck by name; each record has its name as `name`."""
    return {name: load_own_part(cls, path, part, name, name=name, **own) for name, part in load_own_table(path).items()}


def load_own_part(cls: type[T], path: Path, part: object, where: str, **own: Any) -> T:
    """Return a table of a file that ships with envcheck as a record; texts can be long and numbers negative."""
    return RecordLoader(f"{path.parent.name}/{path.name}", bounded=False).read_record(cls, part, where, **own)


class RecordLoader:
    """Reads tables into dataclasses.  UsageError names file, key, the expected kind and the value found.

    `bounded`: a text is one printable line of up to TEXT_LIMIT characters, and a number is 0 or greater.
    """

    def __init__(self, file: str, bounded: bool = True) -> None:
        self.file = file
        self.bounded = bounded

    def read_record(self, cls: type[T], found: object, where: str, **own: Any) -> T:
        """Return one dataclass instance from one table."""
        if not isinstance(found, dict):
            raise self.wrong_kind_error(where, _("a table"), found)
        kinds = list_record_kinds(cls)
        for name in found:
            if name not in kinds:
                raise UsageError(
                    _("{file}: {where}: unknown key", file=self.file, where=join_key(where, name)),
                    suggest_key(name, kinds),
                )
        for name, kind in kinds.items():
            if kind.required and name not in found:
                raise UsageError(
                    _(
                        "{file}: {where}: missing ({kind} expected)",
                        file=self.file,
                        where=join_key(where, name),
                        kind=describe_kind(kind.kind),
                    )
                )
        above = f"{where}." if where else ""
        read = {
            kinds[name].field: self.read_value(kinds[name].kind, each, above + name) for name, each in found.items()
        }
        return cls(**read, **own)

    def read_value(self, kind: Any, found: object, where: str) -> Any:
        """Return one value of the type `kind`."""
        if kind in _SCALARS or kind is Any:
            return self.read_scalar(kind, found, where)
        form, inner = _typing_form(kind)
        if form is None:
            if dataclasses.is_dataclass(kind):
                return self.read_record(typing.cast("type[Any]", kind), found, where)
            return self.read_enum(kind, found, where)
        if form is Annotated:
            return self.read_annotated(inner[0], inner[1], found, where)
        if form in UNIONS:
            return self.read_value(_choose_union_kind(inner, found), found, where)
        if form is typing.Literal:
            return self.read_literal(inner, found, where)
        if form is collections.abc.Mapping:
            return self.read_mapping(inner[1], found, where)
        if not isinstance(found, list):
            raise self.wrong_kind_error(where, describe_kind(kind), found)
        if form is tuple and inner[-1] is not Ellipsis:
            return self.read_fixed_list(inner, found, where)
        made = self.read_items(inner[0], found, where)
        return tuple(made) if form is tuple else frozenset(made)

    def read_items(self, kind: Any, found: list[Any], where: str) -> Iterator[Any]:
        """Yield the entries of a list."""
        return (self.read_value(kind, each, f"{where}[{number}]") for number, each in enumerate(found))

    def read_fixed_list(self, kinds: tuple[Any, ...], found: list[Any], where: str) -> tuple[Any, ...]:
        """Return a list of fixed length: tuple[X, Y]."""
        if len(found) != len(kinds):
            raise self.wrong_kind_error(where, _("a list of {length} values", length=len(kinds)), found)
        return tuple(
            self.read_value(kind, each, f"{where}[{n}]")
            for n, (kind, each) in enumerate(zip(kinds, found, strict=True))
        )

    def read_mapping(self, kind: Any, found: object, where: str) -> Mapping[str, Any]:
        """Return a table with arbitrary keys."""
        if not isinstance(found, dict):
            raise self.wrong_kind_error(where, _("a table"), found)
        return {self.read_scalar(str, k, where): self.read_value(kind, v, join_key(where, k)) for k, v in found.items()}

    def read_annotated(self, kind: Any, mark: object, found: object, where: str) -> Any:
        """Return a value whose type is `Annotated`."""
        if not isinstance(mark, ParsedText):
            many = mark == _ONE_OR_MANY and not isinstance(found, list)
            return self.read_value(kind, [found] if many else found, where)
        try:
            return mark.function(self.read_scalar(str, found, where))
        except ValueError as err:
            raise UsageError(
                _("{file}: {where}: {reason}", file=self.file, where=where, reason=_error_message(err))
            ) from None

    def read_enum(self, kind: type[enum.Enum], found: object, where: str) -> enum.Enum:
        """Return the member of an Enum by its value, or of an IntEnum by its name."""
        members = _members_by_word(kind)
        return members[self.read_literal(tuple(members), found, where)]

    def read_literal(self, words: tuple[Any, ...], found: object, where: str) -> Any:
        """Return one of several allowed words."""
        if isinstance(found, (dict, list)) or found not in words:
            near = suggest_key(found, words) if isinstance(found, str) else NOTHING
            raise UsageError(
                _(
                    "{file}: {where}: expected {expected}, found {found}",
                    file=self.file,
                    where=where,
                    expected=_format_choices(words),
                    found=show_value(found),
                ),
                near,
            )
        return found

    def read_scalar(self, kind: Any, found: object, where: str) -> Any:
        """Return text, a number, a bool or a date. 1 is not a bool, true is not a number, a time is not a date."""
        if kind is Any:
            return found
        if type(found) is not kind and not (kind is float and type(found) is int):
            raise self.wrong_kind_error(where, _SCALARS[kind], found)
        if not self.bounded:
            pass
        elif isinstance(found, str):
            if len(found) > TEXT_LIMIT or not found.isprintable():
                raise self.wrong_kind_error(
                    where, _("one line of printable text, at most {limit} characters", limit=TEXT_LIMIT), found
                )
        elif isinstance(found, (int, float)) and not 0 <= found < NUMBER_LIMIT:  # neither nan nor inf
            raise self.wrong_kind_error(where, _("{kind}, 0 or greater", kind=_SCALARS[kind]), found)
        return float(typing.cast(float, found)) if kind is float else found

    def wrong_kind_error(self, where: str, expected: Message, found: object) -> UsageError:
        """Return the UsageError for a value of the wrong kind."""
        return UsageError(
            _(
                "{file}: {where}: expected {expected}, found {found}",
                file=self.file,
                where=where or _("the file"),
                expected=expected,
                found=show_value(found),
            )
        )


@dataclasses.dataclass(frozen=True)
class _FieldKind:
    """A field of a record: its name, its type, and whether the file must set it."""

    field: str
    kind: Any
    required: bool


def list_record_kinds(cls: Any) -> Mapping[str, _FieldKind]:
    """Return the fields of a record by their key in the file, without those that no file can set."""
    return _inspect_kinds(cls)


@functools.cache
def _inspect_kinds(cls: Any) -> Mapping[str, _FieldKind]:
    kinds = typing.get_type_hints(cls, include_extras=True)
    marks: dict[str, Any] = {name: getattr(kind, "__metadata__", ("",))[0] for name, kind in kinds.items()}
    return {
        getattr(marks[each.name], "name", each.name): _FieldKind(each.name, kinds[each.name], _is_required(each))
        for each in dataclasses.fields(cls)
        if marks[each.name] != _GIVEN
    }


def _is_required(each: dataclasses.Field[Any]) -> bool:
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


@functools.cache
def _typing_form(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(kind), typing.get_args(kind)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _members_by_word(kind: type[enum.Enum]) -> dict[str, enum.Enum]:
    """Return the members of an Enum by the word that a file uses."""
    return {each.name if issubclass(kind, enum.IntEnum) else each.value: each for each in kind}


def _choose_union_kind(kinds: tuple[Any, ...], found: object) -> Any:
    """Return the first kind of a union that fits the value; the first of all if none fits, for the error message."""
    possible = [kind for kind in kinds if kind is not type(None)]
    return next((kind for kind in possible if _raw_type(kind) is type(found)), possible[0])


def _raw_type(kind: Any) -> Any:
    """Return the Python type that the TOML parser gives a value of that kind."""
    form = typing.get_origin(kind)
    if form is None:
        return dict if dataclasses.is_dataclass(kind) else kind
    return {collections.abc.Mapping: dict, typing.Literal: str}.get(form, list)


def describe_kind(kind: Any) -> Message:
    """Return the name of a kind for an error message."""
    form, inner = typing.get_origin(kind), typing.get_args(kind)
    if form is Annotated:
        return _("text") if isinstance(inner[1], ParsedText) else describe_kind(inner[0])
    if form in UNIONS:
        return describe_kind(next(k for k in inner if k is not type(None)))
    if form is typing.Literal:
        return _format_choices(inner)
    if form in (tuple, frozenset):
        return _LISTS.get(_raw_type(inner[0]), _("a list of numbers"))
    if _is_enum(kind):
        return _format_choices(tuple(_members_by_word(kind)))
    return _SCALARS.get(kind, _("a table"))


def _format_choices(choices: tuple[Any, ...]) -> Message:
    return _("one of {choices}", choices=join(", ", map(str, choices)))


def show_value(found: object) -> Message:
    """Return a value for an error message: its kind, and the value itself if it is short."""
    name = _FOUND.get(type(found), _("a date or time"))
    if isinstance(found, bool):
        return name
    if isinstance(found, int) and found.bit_length() > 64:  # Python refuses to print those of thousands of digits
        return _("{name}, of {bit_length} bits", name=name, bit_length=found.bit_length())
    return (
        _("{name} {found}", name=name, found=shorten(repr(found), 60)) if isinstance(found, (str, int, float)) else name
    )


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters, followed by dots if there were more."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def join_key(where: str, key: str) -> str:
    """Return the full name of a key in the file, printable."""
    shown = shorten(key if key.isprintable() else ascii(key), 80)
    return f"{where}.{shown}" if where else shown


def suggest_key(name: str, known: Iterable[str], otherwise: Message = NOTHING) -> Message:
    """Return the next step for an unknown word: the nearest known word, else `otherwise`, else all of them."""
    words = sorted(known)
    return suggestions.suggest(name, words, otherwise or _("valid keys: {words}", words=join(", ", words)))

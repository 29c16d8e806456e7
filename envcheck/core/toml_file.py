"""TOML files that may come from strangers, and frozen dataclasses from their tables, along the dataclass's own types.

Files are bounded and UTF-8; whatever is wrong is named in one sentence with file, key and kind.  A text in a record is
one printable line: it ends up in tables of fixed width.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import math
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from envcheck.core.errors import UsageError

try:
    import tomli as tomllib  # compiled where there is a wheel, then four times as fast as Python's own
except ImportError:  # a pod, or a host that has Python alone
    import tomllib  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")
ENTRIES = 256  # of a list or a table
CHARACTERS = 200  # of a text
NUMBER = 1 << 40
_KINDS: dict[Any, str] = {str: "one line of text", int: "a whole number", float: "a number", bool: "true or false"}


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
        raise UsageError(f"{path}: not UTF-8 text: {_short(err)}", f"write the {what} as UTF-8") from None


def table(text: str, file: str, next_step: str) -> dict[str, Any]:
    """The table that the text holds; `file` only names it."""
    try:
        read: dict[str, Any] = tomllib.loads(text)
        return read
    except (ValueError, RecursionError) as err:  # TOMLDecodeError, or a number of thousands of digits
        raise UsageError(f"{file}: this is not TOML: {_short(err)}", next_step) from None


def _short(err: Exception) -> str:
    return str(err).splitlines()[0][:120] if str(err) else type(err).__name__


def ours(default: Any) -> Any:
    """A field that no file may set: it comes from elsewhere (a table's name, a fault)."""
    return dataclasses.field(default=default, metadata={"ours": True})


def load_record(cls: type[T], table: object, where: str) -> T:
    """The dataclass `cls` from a table; `where` names file and key for the sentence."""
    if not isinstance(table, dict):
        raise _wrong(where, "a table", table)
    shape: Any = cls
    kinds, fields = _kinds(shape), _fields(shape)
    for key in table:
        if key not in fields:
            raise UsageError(f"{where}: there is no key {key!r:.60}", f"keys here: {', '.join(fields)}")
    for name, each in fields.items():
        if name not in table and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise UsageError(f"{where}: {name} is missing", f"add {name}, {_describe(kinds[name])}")
    return cls(**{key: value(kinds[key], found, f"{where}: {key}") for key, found in table.items()})


@functools.cache
def _kinds(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@functools.cache
def _fields(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    return {f.name: f for f in dataclasses.fields(cls) if not f.metadata.get("ours")}


def value(kind: Any, found: object, where: str) -> Any:
    """One value of `kind`."""
    form, inner = typing.get_origin(kind), typing.get_args(kind)
    if form in (types.UnionType, typing.Union):
        return value(inner[0], found, where)
    if dataclasses.is_dataclass(kind):
        return load_record(typing.cast("type[Any]", kind), found, where)
    if form is tuple:
        if not isinstance(found, list) or len(found) > ENTRIES:
            raise _wrong(where, f"a list of at most {ENTRIES} entries", found)
        return tuple(value(inner[0], each, f"{where}[{n}]") for n, each in enumerate(found))
    if form is collections.abc.Mapping:
        if not isinstance(found, dict) or len(found) > ENTRIES:
            raise _wrong(where, f"a table of at most {ENTRIES} entries", found)
        return {value(str, k, where): value(inner[1], v, f"{where}.{k:.60}") for k, v in found.items()}
    return _scalar(kind, found, where)


def _scalar(kind: Any, found: object, where: str) -> Any:
    if kind is float and type(found) is int:
        found = float(found) if abs(found) < NUMBER else math.inf
    if type(found) is not kind:
        raise _wrong(where, _KINDS[kind], found)
    if isinstance(found, str) and (len(found) > CHARACTERS or not found.isprintable()):
        raise UsageError(f"{where}: one printable line of at most {CHARACTERS} characters is expected")
    if isinstance(found, (int, float)) and not 0 <= found < NUMBER:
        raise UsageError(f"{where}: {found!r:.40} is out of range", "write a number from 0 on")
    return found


def _wrong(where: str, expected: str, found: object) -> UsageError:
    return UsageError(f"{where}: {expected} is expected, not {str(found)!r:.60}")


def _describe(kind: Any) -> str:
    return _KINDS.get(kind, "a table" if dataclasses.is_dataclass(kind) else "a list or a table")

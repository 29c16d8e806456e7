"""TOML tables into frozen dataclasses, along their own types; whatever is wrong is named with file, key and kind.

A field whose metadata says `ours` is state that a fault sets, and is refused in a file.  Text is one printable line:
it ends up in tables of fixed width.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import types
import typing
from typing import Any, TypeVar

from envcheck.core.errors import UsageError

T = TypeVar("T")
ENTRIES = 256  # of a list or a table
CHARACTERS = 200  # of a text
NUMBER = 1 << 40
_KINDS: dict[Any, str] = {str: "one line of text", int: "a whole number", float: "a number", bool: "true or false"}


def ours(default: Any) -> Any:
    """A field that no file may set."""
    return dataclasses.field(default=default, metadata={"ours": True})


def fill(cls: type[T], table: object, where: str) -> T:
    """The dataclass `cls` from a table; `where` names file and key for the sentence."""
    if not isinstance(table, dict):
        raise _wrong(where, "a table", table)
    kinds = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if not f.metadata.get("ours")}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise UsageError(f"{where}: there is no key {key!r:.60}", f"keys here: {', '.join(fields)}")
    for name, each in fields.items():
        if name not in table and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise UsageError(f"{where}: {name} is missing", f"add {name}, {_describe(kinds[name])}")
    return cls(**{key: value(kinds[key], found, f"{where}: {key}") for key, found in table.items()})


def value(kind: Any, found: object, where: str) -> Any:
    """One value of `kind`."""
    form, inner = typing.get_origin(kind), typing.get_args(kind)
    if form in (types.UnionType, typing.Union):
        return value(inner[0], found, where)
    if dataclasses.is_dataclass(kind):
        return fill(typing.cast("type[Any]", kind), found, where)
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

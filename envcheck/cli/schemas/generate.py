"""JSON Schema from annotated classes: dataclasses as dataclasses.asdict gives them, and classes of Keys.

A subclass of Keys lists the keys of a JSON object that is put together by hand.  Each key is required, unless it is set
to maybe(); `like` takes over the fields of a dataclass or the keys of another class, but those in `without`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from envcheck.core.model import Device, Document, Process, ToolError, Topology
from envcheck.core.version import SCHEMA_VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
OPEN = (Document, Device, Process, Topology, ToolError)  # what `envcheck parse` prints may get further keys
OPEN_WORDS = "of what `envcheck parse` prints: open, further keys may come"


@dataclasses.dataclass(frozen=True)
class KeyRule:
    """What is said of a key besides its type; `is_optional`: it may be missing."""

    is_optional: bool
    rules: Mapping[str, Any]


def key(says: str = "", **rules: Any) -> Any:
    """A key that is always there, with its description and further keywords of JSON Schema."""
    return KeyRule(False, ({"description": says} if says else {}) | rules)


def maybe(says: str = "", **rules: Any) -> Any:
    """A key that may be missing."""
    return KeyRule(True, key(says, **rules).rules)


class Keys:
    """The keys of a JSON object, as annotations."""

    _like: typing.ClassVar[type | None] = None
    _without: typing.ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, like: type | None = None, without: tuple[str, ...] = ()) -> None:
        cls._like, cls._without = like, without


def make_schema(name: str, title: str, keys: type, rules: Mapping[str, Any]) -> dict[str, Any]:
    """The whole schema of the document `name`; `rules` are keywords that hold for all of it."""
    parts: dict[str, Any] = {}
    head = {"$schema": DIALECT, "$id": f"urn:envcheck:{name}:{SCHEMA_VERSION}", "title": title}
    body = _object(keys, parts) | dict(rules)
    return {**head, **body, **({"$defs": dict(sorted(parts.items()))} if parts else {})}


def _object(cls: type, parts: dict[str, Any]) -> dict[str, Any]:
    keys = _keys(cls)
    closed = {"description": OPEN_WORDS} if cls in OPEN else {"additionalProperties": False}
    return {
        "type": "object",
        "properties": {name: _value(hint, parts) | dict(rule.rules) for name, (hint, rule) in keys.items()},
        "required": [name for name, (_, rule) in keys.items() if not rule.is_optional],
    } | closed


def _keys(cls: type) -> dict[str, tuple[Any, KeyRule]]:
    """Each key's type and rule, those that are taken over first."""
    hints = typing.get_type_hints(cls)
    if dataclasses.is_dataclass(cls):
        return {field.name: (hints[field.name], KeyRule(False, {})) for field in dataclasses.fields(cls)}
    assert issubclass(cls, Keys)
    taken = {} if cls._like is None else _keys(cls._like)
    own = {name: (hints[name], vars(cls).get(name, KeyRule(False, {}))) for name in inspect.get_annotations(cls)}
    return {name: one for name, one in (taken | own).items() if name not in cls._without}


def _value(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """The schema of one type; objects are put into `parts` and referred to."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return {}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return _union([_value(one, parts) for one in inner])
    if origin in (list, tuple):
        return _array(inner, parts)
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _value(inner[1], parts)}
    if issubclass(hint, enum.Enum):
        return {"enum": [one.value if isinstance(one.value, str) else one.name for one in hint]}
    if hint.__name__ not in parts:
        parts[hint.__name__] = {}
        parts[hint.__name__] = _object(hint, parts)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _array(inner: tuple[Any, ...], parts: dict[str, Any]) -> dict[str, Any]:
    if len(inner) == 1 or inner[1] is ...:
        return {"type": "array", "items": _value(inner[0], parts)}
    return {"type": "array", "prefixItems": [_value(one, parts) for one in inner], "items": False}


def _union(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if all(set(one) == {"type"} for one in choices):
        return {"type": [one["type"] for one in choices]}
    return {"anyOf": choices}

"""Build JSON Schema from annotated classes: dataclasses as dataclasses.asdict returns them, and subclasses of Keys.

A subclass of Keys lists the keys of a JSON object.  Each key is required unless it is set to optional_key(); `like`
takes over the fields of a dataclass or the keys of another class, except those in `without`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from envcheck.cli.schemas.key_meanings import find_meaning
from envcheck.core.messages import Message
from envcheck.core.model import Device, Document, Process, ToolError, Topology
from envcheck.core.version import SCHEMA_VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {Message: "string", str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
OPEN = (Document, Device, Process, Topology, ToolError)  # what `envcheck parse` prints may get further keys
OPEN_WORDS = "Part of the output of `envcheck parse`; further keys may follow."


@dataclasses.dataclass(frozen=True)
class KeyRule:
    """The description and further keywords of a key; `is_optional`: the key may be missing."""

    is_optional: bool
    rules: Mapping[str, Any]


def key(meaning: str = "", **rules: Any) -> Any:
    """Return a required key with its description and further keywords of JSON Schema."""
    return KeyRule(False, ({"description": meaning} if meaning else {}) | rules)


def optional_key(meaning: str = "", **rules: Any) -> Any:
    """Return a key that may be missing."""
    return KeyRule(True, key(meaning, **rules).rules)


class Keys:
    """Base class of the descriptions of JSON objects: each annotation is a key."""

    _like: typing.ClassVar[type | None] = None
    _without: typing.ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, like: type | None = None, without: tuple[str, ...] = ()) -> None:
        cls._like, cls._without = like, without


def make_schema(name: str, title: str, keys: type, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the document `name`; `rules` are keywords for the whole document."""
    parts: dict[str, Any] = {}
    head = {"$schema": DIALECT, "$id": f"urn:envcheck:{name}:{SCHEMA_VERSION}", "title": title}
    body = _describe_object(keys, parts) | dict(rules)
    return {**head, **body, **({"$defs": dict(sorted(parts.items()))} if parts else {})}


def object_name(cls: type) -> str:
    """Return the name of an object in $defs."""
    return cls.__name__.removesuffix("Values")


def _describe_object(cls: type, parts: dict[str, Any]) -> dict[str, Any]:
    keys = _collect_keys(cls)
    closed = {"description": OPEN_WORDS} if cls in OPEN else {"additionalProperties": False}
    return {
        "type": "object",
        "properties": {name: _describe_type(hint, parts) | dict(rule.rules) for name, (hint, rule) in keys.items()},
        "required": [name for name, (_, rule) in keys.items() if not rule.is_optional],
    } | closed


def _collect_keys(cls: type) -> dict[str, tuple[Any, KeyRule]]:
    """Return the type and the rule of each key, those of `like` first."""
    hints = typing.get_type_hints(cls)
    if dataclasses.is_dataclass(cls):
        return {f.name: (hints[f.name], _add_meaning(cls, f.name, KeyRule(False, {}))) for f in dataclasses.fields(cls)}
    assert issubclass(cls, Keys)
    taken = {} if cls._like is None else _collect_keys(cls._like)
    own = {
        name: (hints[name], _add_meaning(cls, name, vars(cls).get(name, KeyRule(False, {}))))
        for name in inspect.get_annotations(cls)
    }
    return {name: found for name, found in (taken | own).items() if name not in cls._without}


def _add_meaning(owner: type, name: str, rule: KeyRule) -> KeyRule:
    meaning = find_meaning(owner, name)
    return KeyRule(rule.is_optional, {"description": meaning, **rule.rules}) if meaning else rule


def _describe_type(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one type; objects are added to `parts` and referenced."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return {}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return _describe_union([_describe_type(one, parts) for one in inner])
    if origin in (list, tuple):
        return _describe_array(inner, parts)
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _describe_type(inner[1], parts)}
    if issubclass(hint, enum.Enum):
        return {"enum": [one.value if isinstance(one.value, str) else one.name for one in hint]}
    name = object_name(hint)
    if name not in parts:
        parts[name] = {}  # a class may refer to itself
        parts[name] = _describe_object(hint, parts)
    return {"$ref": f"#/$defs/{name}"}


def _describe_array(inner: tuple[Any, ...], parts: dict[str, Any]) -> dict[str, Any]:
    if len(inner) == 1 or inner[1] is ...:
        return {"type": "array", "items": _describe_type(inner[0], parts)}
    return {"type": "array", "prefixItems": [_describe_type(one, parts) for one in inner], "items": False}


def _describe_union(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if all(set(one) == {"type"} for one in choices):
        return {"type": [one["type"] for one in choices]}
    return {"anyOf": choices}

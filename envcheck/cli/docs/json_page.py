"""reference/json.md: the documents of --json, their nested objects, and the keys of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envcheck.cli import schemas
from envcheck.cli.docs.markdown_table import NOTE, cell, code, table
from envcheck.cli.schemas.generate import object_name
from envcheck.core.version import SCHEMA_VERSION

COMMON_KEYS = ("schema", "error", "exit_code", "next")
OPTIONAL = " \\*"  # after a key that may be missing
# The document of an object that is printed by itself, too.
DOCUMENT_NAMES = {object_name(keys): name for name, (_unused, keys, _rules) in schemas.DOCUMENTS.items()}

Schema = Mapping[str, Any]


def page() -> str:
    """Return the page."""
    documents = {name: schemas.build_schema(name) for name in schemas.list_documents()}
    lines = [NOTE, "", "# JSON documents", ""]
    lines += ["`--json` prints exactly one document on standard output. `envcheck schema NAME` prints its JSON Schema"]
    lines += [f"(draft 2020-12). The schema number is {SCHEMA_VERSION}; it rises when a schema changes incompatibly."]
    lines += ["Ignore keys that you do not know. Keys marked \\* may be missing.", ""]
    lines += ["Most documents have these keys, which the tables of the documents leave out:", ""]
    lines += table(("key", "meaning"), _list_common_keys())
    for name, title in schemas.list_documents().items():
        lines += ["", f"## {name}", "", f"Printed by: {_format_title(title)}.", ""]
        lines += _render_keys(documents[name], COMMON_KEYS if "schema" in documents[name]["properties"] else ())
    lines += ["", "## Objects", "", "The objects in these documents, by the name of their type.", ""]
    for name, described in sorted(_collect_objects(documents).items()):
        lines += [f"### {name}", "", *_render_keys(described), ""]
    return "\n".join(lines).rstrip() + "\n"


def _list_common_keys() -> list[tuple[str, str]]:
    return [
        ("`schema`", "The schema number."),
        ("`error`", "What is wrong, in one sentence; null if nothing is."),
        ("`exit_code`", "The [exit code](exit-codes.md) of the command."),
        ("`next`", "What to do next; may be empty."),
    ]


def _format_title(title: str) -> str:
    """Return the title with its commands as code."""
    return re.sub(r"envcheck [^,]+", lambda found: code(found[0]), title)


def _collect_objects(documents: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the nested objects of all documents by name, except those that are documents themselves."""
    found = {name: value for each in documents.values() for name, value in each.get("$defs", {}).items()}
    return {name: value for name, value in found.items() if name not in DOCUMENT_NAMES}


def _render_keys(described: Schema, without: tuple[str, ...] = ()) -> list[str]:
    properties: Mapping[str, Schema] = described.get("properties", {})
    rows = [
        (f"`{key}`{'' if key in described['required'] else OPTIONAL}", _format_type(value), cell(value["description"]))
        for key, value in properties.items()
        if key not in without
    ]
    return table(("key", "type", "meaning"), rows) if rows else ["No further keys."]


def _format_type(value: Schema) -> str:
    """Return the type of a key in words: integer, `ready` or `done`, array of Finding, string or null."""
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_format_type(each) for each in value["anyOf"]))
    if "$ref" in value:
        return _format_reference(str(value["$ref"]).rpartition("/")[2])
    if "const" in value:
        return code(value["const"])
    if "enum" in value:
        *most, last = map(code, value["enum"])
        return f"{', '.join(most)} or {last}"
    kind = value.get("type", "any")
    if kind == "array":
        return f"array of {_format_inner(value['items'])}" if value.get("items") else _format_tuple(value)
    if kind == "object" and isinstance(value.get("additionalProperties"), Mapping):
        return f"map of {_format_inner(value['additionalProperties'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _format_reference(name: str) -> str:
    """Return a link to an object, or to the document that it is."""
    title = DOCUMENT_NAMES.get(name, name)
    return f"[{title}](#{title.lower()})"


def _format_inner(value: Schema) -> str:
    """Return the type of the values of an array or a map, in brackets where it has alternatives."""
    kind = _format_type(value)
    return f"({kind})" if " or " in kind else kind


def _format_tuple(value: Schema) -> str:
    """Return an array of fixed length, with the type of each place, or an array of anything."""
    places = [_format_type(each) for each in value.get("prefixItems", ())]
    return f"array of [{', '.join(places)}]" if places else "array"

"""What the documents of --json look like: JSON Schema, draft 2020-12, a file each.

All documents have one number, `envcheck.core.version.SCHEMA_VERSION`, and no keys but those that are described here;
only the document of `parse` is open, also where a run's record holds it.  A reader ignores keys that it does not know.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError

FOLDER = Path(__file__).parent


def names() -> dict[str, str]:
    """Each document's name, and the command that prints it."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))["title"] for path in sorted(FOLDER.glob("*.json"))}


def text(name: str) -> str:
    """The schema, with those that it refers to; UsageError with the nearest for a name that is none."""
    known = names()
    if name not in known:
        near = ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.5))
        hint = f"did you mean {near}? " if near else ""
        raise UsageError(f"no document is called {name[:80]!r}", f"{hint}envcheck schema names all")
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


def schema(name: str) -> dict[str, Any]:
    """The schema of one document; others that it refers to by their $id stand in its $defs."""
    read: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if inner := sorted(_referred(read)):
        read["$defs"] = {**read.get("$defs", {}), **{each: schema(each) for each in inner}}
    return read


def _referred(node: Any) -> set[str]:
    """Names of the documents whose schemas are referred to: "$ref": "urn:envcheck:NAME:2"."""
    if isinstance(node, list):
        return set().union(*map(_referred, node))
    if not isinstance(node, dict):
        return set()
    found = set().union(*map(_referred, node.values()))
    reference = str(node.get("$ref", ""))
    return found | {reference.split(":")[2]} if reference.startswith("urn:") else found

"""What the documents of --json look like: JSON Schema, draft 2020-12, a file each.

All documents have one number, `envcheck.core.version.SCHEMA_VERSION`, and no keys but those that are described here;
only the document of `parse` is open.  A reader ignores keys that it does not know.
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
    """The schema as it stands in its file; UsageError with the nearest for a name that is none."""
    known = names()
    if name not in known:
        near = ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.5))
        hint = f"did you mean {near}? " if near else ""
        raise UsageError(f"no document is called {name[:80]!r}", f"{hint}envcheck schema names all")
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(text(name))
    return read

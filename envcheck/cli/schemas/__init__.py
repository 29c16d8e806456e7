"""What the documents of --json look like: JSON Schema, draft 2020-12, made from annotated classes.

All documents have one number, `envcheck.core.version.SCHEMA_VERSION`, and no keys but those that are described here;
only the document of `parse` is open, also where a run's record holds it.  A reader ignores keys that it does not know.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from envcheck.cli.schemas import check_documents, job_documents, other_documents, run_documents, version_documents
from envcheck.cli.schemas.generate import make_schema
from envcheck.core.errors import UsageError
from envcheck.core.model import Document

# name: (the command that prints it, its keys, what else is said of it)
DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "parse": ("envcheck parse TOOL", Document, {}),
    **check_documents.DOCUMENTS,
    **version_documents.DOCUMENTS,
    **job_documents.DOCUMENTS,
    **run_documents.DOCUMENTS,
    **other_documents.DOCUMENTS,
}


def names() -> dict[str, str]:
    """Each document's name, and the command that prints it."""
    return {name: DOCUMENTS[name][0] for name in sorted(DOCUMENTS)}


def text(name: str) -> str:
    """The schema, whole in itself; UsageError with the nearest for a name that is none."""
    if name not in DOCUMENTS:
        near = ", ".join(difflib.get_close_matches(name, DOCUMENTS, n=3, cutoff=0.5))
        hint = f"did you mean {near}? " if near else ""
        raise UsageError(f"no document is called {name[:80]!r}", f"{hint}envcheck schema names all")
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


def schema(name: str) -> dict[str, Any]:
    """The schema of one document; what several of its keys hold stands in its $defs."""
    title, keys, rules = DOCUMENTS[name]
    return make_schema(name, title, keys, rules)

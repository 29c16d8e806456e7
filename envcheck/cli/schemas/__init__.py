"""JSON Schema (draft 2020-12) of the --json documents, built from annotated classes.

All documents have the same schema number, `envcheck.core.version.SCHEMA_VERSION`.  They contain no keys except those
described here; only the document of `parse` is open, also as a part of the record of a run.  Readers must ignore
unknown keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from envcheck.cli.schemas import check_documents, job_documents, other_documents, run_documents, version_documents
from envcheck.cli.schemas.generate import make_schema
from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.model import Document

# name: (the command that prints the document, its keys, further keywords of its schema)
DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "parse": ("envcheck parse", Document, {}),
    **check_documents.DOCUMENTS,
    **version_documents.DOCUMENTS,
    **job_documents.DOCUMENTS,
    **run_documents.DOCUMENTS,
    **other_documents.DOCUMENTS,
}


def list_documents() -> dict[str, str]:
    """Return the names of the documents, each with the command that prints it."""
    return {name: DOCUMENTS[name][0] for name in sorted(DOCUMENTS)}


def render_schema(name: str) -> str:
    """Return the schema of a document as text; UsageError with similar names if `name` is unknown."""
    matched = suggestions.match_name(name, DOCUMENTS)
    if matched is None:
        more = _("List all documents with envcheck schema.")
        next_step = suggestions.suggest(name, DOCUMENTS, more=more, limit=3, cutoff=0.5)
        raise UsageError(_("unknown document {name!r}", name=name[:80]), next_step)
    return json.dumps(build_schema(matched), indent=1, ensure_ascii=False) + "\n"


def build_schema(name: str) -> dict[str, Any]:
    """Return the schema of one document; nested objects are in its $defs."""
    title, keys, rules = DOCUMENTS[name]
    return make_schema(name, title, keys, rules)

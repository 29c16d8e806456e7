"""reference/error-catalogue.md: everything that `envcheck explain` knows."""

from __future__ import annotations

from envcheck.cli.docs.markdown_table import NOTE, cell, source, table
from envcheck.explain.catalogue import load_entries

CODES = 6  # of an entry; the rest are left out


def page() -> str:
    """Return the page."""
    found = tuple(load_entries())
    lines = [NOTE, "", "# Error catalogue of `envcheck explain`", ""]
    guide = "[Find out why a run failed](../how-to/diagnose-a-failure.md)"
    lines += [f"{len(found)} entries. {guide} shows how to use them.", ""]
    rows = []
    for entry in found:
        codes = ", ".join(entry.codes[:CODES]) + (", ..." if len(entry.codes) > CODES else "")
        rows.append((f"`{entry.name}`", entry.kind, cell(entry.says), cell(codes), source("".join(entry.source[:1]))))
    return "\n".join([*lines, *table(("entry", "kind", "meaning", "codes", "source"), rows)]) + "\n"

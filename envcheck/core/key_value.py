"""An answer's `key : value` pairs, and the driver's version among them."""

from __future__ import annotations

from envcheck.core.facts import VendorFacts
from envcheck.core.model import Document


def blocks(document: Document) -> list[dict[str, object]]:
    """The `key : value` pairs of an answer, chip by chip where it has several."""
    listed = document.detail.get("blocks")
    if not listed:
        pairs = document.detail.get("fields")
        return [pairs] if isinstance(pairs, dict) else []
    said = (
        [block.get("fields") for block in listed if isinstance(block, dict)] if isinstance(listed, list | tuple) else []
    )
    return [pairs for pairs in said if isinstance(pairs, dict)]


def fields(document: Document) -> dict[str, object]:
    """As `blocks`, in one; the first block that says a key wins."""
    told = blocks(document)
    if len(told) == 1:
        return told[0]
    found: dict[str, object] = {}
    for block in told:
        found = {**block, **found}
    return found


def driver_version(v: VendorFacts) -> str | None:
    """The running driver's, as the tool says, else the file's."""
    said = v.document.driver_version if v.document else None
    return said or next((d.driver_version for d in v.documents.values() if d.driver_version), None)

"""The `key : value` pairs of an answer, and the driver's version."""

from __future__ import annotations

import re

from envcheck.core.facts import VendorFacts
from envcheck.core.model import Document


def blocks(document: Document) -> list[dict[str, object]]:
    """Return the `key : value` pairs of an answer, one dictionary per chip."""
    listed = document.detail.get("blocks")
    if not listed:
        pairs = document.detail.get("fields")
        return [pairs] if isinstance(pairs, dict) else []
    found = (
        [block.get("fields") for block in listed if isinstance(block, dict)] if isinstance(listed, list | tuple) else []
    )
    return [pairs for pairs in found if isinstance(pairs, dict)]


def fields(document: Document) -> dict[str, object]:
    """Return the pairs like `blocks`, merged; the first block with a key wins."""
    listed = blocks(document)
    if len(listed) == 1:
        return listed[0]
    found: dict[str, object] = {}
    for block in listed:
        found = {**block, **found}
    return found


def driver_version(v: VendorFacts) -> str | None:
    """Return the running driver's version from the tool, else from the driver's file.

    A version of an interface that the tool imitates (Vendor.interface_version) is not the driver's.
    """
    others = (document.driver_version for document in v.documents.values())
    return reported_driver_version(v) or next(filter(None, others), None)


def reported_driver_version(v: VendorFacts) -> str | None:
    """Return the driver's version as the tool reports it; None if it reports only that of an interface."""
    reported = v.document.driver_version if v.document else None
    imitated = v.vendor.interface_version and reported and re.fullmatch(v.vendor.interface_version, reported)
    return None if imitated else reported

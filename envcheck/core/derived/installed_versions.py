"""The versions of a vendor's toolkit and firmware, from version files, folder names and the vendor's tool."""

from __future__ import annotations

import re

from envcheck.core import versions
from envcheck.core.derived.key_value import fields
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Document


def toolkit_trees(facts: Facts, v: VendorFacts) -> list[str]:
    """Return the toolkit's folders; a link without a version, such as /usr/local/corex, is left out if there are
    others."""
    answers = [facts.answers.get(question.key) for question in v.vendor.toolkit_trees]
    found = [path for answer in answers if answer and answer.ok for path in answer.out.split()]
    named = [path for path in found if re.search(r"\d", path.rpartition("/")[2])]
    return named or found


def toolkit_version(facts: Facts, v: VendorFacts) -> str | None:
    """Return the version from the files in the toolkit's link, which is the active tree, else the highest in folder
    names."""
    link = v.vendor.toolkit_link
    for key, document in v.documents.items() if link else ():
        if link in key and (value := _document_version(document)):
            return value
    names = [m[1] for path in toolkit_trees(facts, v) if (m := re.search(r"(?:^|[^\w.])[A-Za-z_.]*(\d[\w.]*)$", path))]
    return max(names, key=lambda name: versions.sort_key(name) or ()) if names else None


def _document_version(document: Document) -> str | None:
    plain = document.detail.get("fields")
    value = document.detail.get("cann_version") or fields(document).get("version")
    value = value or (plain.get("version") if isinstance(plain, dict) else None)
    return value if isinstance(value, str) else None


def firmware_version(v: VendorFacts) -> str | None:
    """Return the version from the firmware's file, else from the first board with one."""
    document = v.documents.get(f"read {v.vendor.firmware_file}")
    value = document.detail.get("firmware_version") if document else None
    boards = (board.get("Firmware Version") for board in board_fields(v).values())
    return next((text for text in (value, *boards) if isinstance(text, str) and text), None)


def board_fields(v: VendorFacts) -> dict[int, dict[str, object]]:
    """Return the fields of each board by device id; boards without fields are left out."""
    return {
        number: value
        for number, kinds in v.per_device.items()
        if (board := kinds.get("board")) is not None and (value := fields(board))
    }


def firmware_range(v: VendorFacts) -> tuple[str | None, str | None]:
    """Return the firmware range that the driver supports, from compatible_version_fw=[7.0.0,8.9.9]; (None, None) if
    unknown."""
    document = v.documents.get(f"read {v.vendor.driver_version_file}")
    value = document.detail.get("fields", {}) if document else {}
    text = str(value.get("compatible_version_fw", "")) if isinstance(value, dict) else ""
    found = re.search(r"\[([\d.]+?)\.?,([\d.]+?)\.?\]", text)
    return (found[1], found[2]) if found else (None, None)

"""The versions of a vendor's toolkit and firmware, as files, folders and the vendor's tool tell them."""

from __future__ import annotations

import re

from envcheck.core import versions
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.key_value import fields
from envcheck.core.model import Document


def toolkit_trees(facts: Facts, v: VendorFacts) -> list[str]:
    """The toolkit's folders; a link such as /usr/local/corex beside corex-4.3.0 is not another tree."""
    answers = [facts.answers.get(question.key) for question in v.vendor.toolkit_trees]
    found = [path for answer in answers if answer and answer.ok for path in answer.out.split()]
    named = [path for path in found if re.search(r"\d", path.rpartition("/")[2])]
    return named or found


def toolkit_version(facts: Facts, v: VendorFacts) -> str | None:
    """From files below the toolkit's link, which is the tree in force, else from the folders' names."""
    link = v.vendor.toolkit_link
    for key, document in v.documents.items() if link else ():
        if link in key and (told := _told_version(document)):
            return told
    names = [m[0] for path in toolkit_trees(facts, v) if (m := re.search(r"\d[\w.]*$", path))]
    return max(names, key=lambda name: versions.key(name) or ()) if names else None


def _told_version(document: Document) -> str | None:
    plain = document.detail.get("fields")
    told = document.detail.get("cann_version") or fields(document).get("version")
    told = told or (plain.get("version") if isinstance(plain, dict) else None)
    return told if isinstance(told, str) else None


def firmware_version(v: VendorFacts) -> str | None:
    """From the firmware's file, else from the first board that tells one."""
    document = v.documents.get(f"read {v.vendor.firmware_file}")
    told = document.detail.get("firmware_version") if document else None
    boards = (board.get("Firmware Version") for board in board_fields(v).values())
    return next((text for text in (told, *boards) if isinstance(text, str) and text), None)


def board_fields(v: VendorFacts) -> dict[int, dict[str, object]]:
    """What each board says of itself, by the device's id; boards that say nothing are left out."""
    return {
        number: told
        for number, kinds in v.per_device.items()
        if (board := kinds.get("board")) is not None and (told := fields(board))
    }


def firmware_range(v: VendorFacts) -> tuple[str | None, str | None]:
    """The firmware that the driver's file allows: compatible_version_fw=[7.0.0,8.9.9]."""
    document = v.documents.get(f"read {v.vendor.driver_version_file}")
    told = document.detail.get("fields", {}) if document else {}
    text = str(told.get("compatible_version_fw", "")) if isinstance(told, dict) else ""
    found = re.search(r"\[([\d.]+?)\.?,([\d.]+?)\.?\]", text)
    return (found[1], found[2]) if found else (None, None)

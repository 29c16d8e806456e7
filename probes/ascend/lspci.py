"""Parses `lspci`, with or without -nn, -n, -D: which devices are NPUs. (PCI vendor 19e5 is Huawei.)"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envcheck.core.model import Document
from probes.ascend.npu_page import TOOL, OutputPage

# Device ids from npu-smi's board query and from public lspci output: d100 = 310, d500 = 310P, d801 = 910 (first
# generation), d802 = 910B, d803 = 910C (A3), d806 = 950; d105 and d107 = 310B.
FAMILIES = {
    "d100": "310",
    "d105": "310B",
    "d107": "310B",
    "d500": "310P",
    "d801": "910",
    "d802": "910B",
    "d803": "A3",
    "d806": "950",
}
_LINE = re.compile(
    r"\s*(?P<bus>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s+"
    r"(?:(?P<kind>[A-Z][^:\[]{0,80}?)(?:\s*\[[0-9a-fA-F]{4}\])?|\"?(?P<number>[0-9a-fA-F]{4})\"?):\s+(?P<rest>.*)"
)
_IDS = re.compile(r"\[?\b([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\b\]?")
_DEVICE = re.compile(r"\bDevice\s+([0-9a-fA-F]{4})\b")
_REV = re.compile(r"\(rev ([0-9a-fA-F]{2})\)")
_PRODUCT = re.compile(r"\bAscend|\bDavinci|\bNPU\b", re.IGNORECASE)


def read_lspci(page: OutputPage) -> Document | None:
    """Return the document of kind `lspci`, or None if there is no such line."""
    if ": " not in page.body:
        return None
    found = [device for line in _join_broken_lines(page.lines) if "." in line and (device := _parse_device(line))]
    if not found:
        return None
    detail = {"devices": found, "npu_count": sum(device["is_npu"] for device in found)}
    return Document(tool=TOOL, kind="lspci", detail=detail)


def _join_broken_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines, with wrapped ones joined; the indented details of `lspci -v` are not continuations."""
    whole: list[str] = []
    for line in lines:
        rest = whole and line[:1].strip() and 60 <= len(whole[-1]) < 200 and not _LINE.fullmatch(line)
        if rest and _LINE.fullmatch(whole[-1]):
            whole[-1] += line
        else:
            whole.append(line)
    return whole


def _parse_device(line: str) -> dict[str, Any] | None:
    if not (found := _LINE.fullmatch(line)):
        return None
    rest = found["rest"]
    ids, named, rev = _IDS.search(rest), _DEVICE.search(rest), _REV.search(rest)
    device = ids[2].lower() if ids else named[1].lower() if named else None
    huawei = ids[1].lower() == "19e5" if ids else "Huawei" in rest
    is_npu = huawei and (device in FAMILIES or (device is None and bool(_PRODUCT.search(rest))))
    return {
        "bus_id": found["bus"],
        "class": found["kind"] or found["number"],
        "device_id": device,
        "rev": rev[1] if rev else None,
        "is_npu": is_npu or (huawei and _is_accelerator(found) and bool(device and re.match(r"d[0-9]", device))),
        "family": FAMILIES.get(device or "") if huawei else None,
    }


def _is_accelerator(found: re.Match[str]) -> bool:
    """Return whether the class is 1200; Kunpeng's engines (zip, hpre) share it, but their device ids do not start
    with d."""
    return found["number"] == "1200" or (found["kind"] or "").startswith("Processing accel")

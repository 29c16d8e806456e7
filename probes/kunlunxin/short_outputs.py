"""Parses the short outputs of xpu_smi: the list of devices, the states of links, and lines of versions from -q."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envcheck.core.model import CellRemark, Device, Document
from envcheck.core.tool_text import parse_number
from probes.smi import cell_words, device_cells
from probes.smi.pasted_output import PastedOutput, cell_value
from probes.smi.word_alignment import list_words

_DEVICE = re.compile(
    r"(?:^|\s)XPU\s{1,4}(\d{1,4})\s?:\s{0,4}(\S.{0,60}?)\s{1,8}\(?(?:UUID\s?:\s{0,4})?([A-Z]{3}-[\w*.?-]{4,80})\s{0,4}\)?\s*$"
)
# The same with a number, a name or a UUID that is masked or blank.
_DAMAGED = re.compile(r"[\s>#]{0,8}XPU\s{1,8}(?:(\d{1,4})\s?:)?\s{0,4}(\S.{0,120}?)\s*$")
_UUID = re.compile(r"\(?(?:UUID\s?:\s{0,4})?([A-Z]{3}-[\w*.?-]{4,80})\s{0,4}\)?$")
_MASKED_UUID = re.compile(r"(?:\s{2,60}|\s{1,60}\(UUID\s?:)\s{0,4}(\S.{0,80}?)?\s{0,60}\)?$")
_OPEN = re.compile(r"(?:^|\s)XPU\s{1,4}(\d{1,4})\s?:\s{0,4}(\S.{0,60}?)?\s*$")
_LINK = re.compile(r"\s{0,24}(?:XPU)?-?Link\s{1,4}(\d{1,3})\s?[:,]\s?(\S.{0,120})$", re.IGNORECASE)
_LINE = re.compile(r"\s{0,40}([A-Za-z][\w -]{1,30}?) ?(?:Version)\s{0,60}:\s{0,4}(\d[\w.]{0,40}|N/A)\s*$")
_WORKS = re.compile(r"(?<!in)\b(?:active|up|enabled|on)\b", re.IGNORECASE)


def parse_device_list(paste: PastedOutput) -> Document | None:
    """Parse `-L`: XPU 0: P800 OAM  GPU-ed733bb8-..."""
    devices: list[Device] = []
    cut = False
    remarks: list[CellRemark] = []
    for at, line in enumerate(paste.lines):
        if len(line) > 300:
            continue
        if cells := _read_device_line(line, paste.lines[at + 1 :]) if "XPU" in line else None:
            devices.append(device_cells.make_device(cells, len(devices)))
            remarks += [CellRemark(paste.numbers[at], *each) for each in device_cells.list_unreadable(cells)]
            cut = False
        elif line.strip():
            cut = bool(devices) and bool(_OPEN.match(line))
    return (
        Document(paste.tool.name, "list", truncated=cut, devices=tuple(devices), remarks=tuple(remarks))
        if devices
        else None
    )


def _read_device_line(line: str, below: Sequence[str]) -> dict[str, str | None] | None:
    """Return the cells of a device's line, of which one may be masked or blank; None for another line.

    Without a UUID it is whole where another device is on the next line.
    """
    if found := _DEVICE.search(line):
        return {"index": found[1], "name": found[2], "uuid": found[3]}
    damaged = _DAMAGED.match(line)
    if not damaged:
        return None
    index, rest = damaged[1], damaged[2]
    if uuid := _UUID.search(rest):
        words = list_words(rest[: uuid.start()])
        if index is None and (not words or any(word in ("UUID", ":") for word in words)):
            return None  # a line of -q
        masks = words[:1] if words and index is None and cell_words.is_unprinted(words[0].rstrip(":")) else []
        return {"index": index or " ".join(masks), "name": " ".join(words[len(masks) :]), "uuid": uuid[1]}
    masked = _MASKED_UUID.search(rest)
    name = rest[: masked.start()] if masked else rest
    is_masked = masked is not None and cell_words.is_unprinted(masked[1] or "")
    is_blank = masked is None and any(map(_DEVICE.search, below[:1]))
    if index is None or not (is_masked or is_blank):
        return None
    return {"index": index, "name": name, "uuid": masked[1] if masked else ""}


def parse_link_states(paste: PastedOutput) -> Document | None:
    """Parse `xpulink -s`: below each device one line per link, such as `Link 0: active`."""
    devices: list[dict[str, Any]] = []
    for line in paste.lines:
        if len(line) > 300:
            continue
        if found := (_DEVICE.search(line) or _OPEN.match(line)) if "XPU" in line else None:
            uuid = found[3] if found.re is _DEVICE else None
            devices.append({"index": int(found[1]), "name": cell_value(found[2]), "uuid": uuid, "links": []})
        elif devices and (link := _LINK.match(line)):
            devices[-1]["links"].append(_parse_link(int(link[1]), link[2].strip()))
    if not any(device["links"] for device in devices):
        return None
    shown = tuple(Device(index=d["index"], name=d["name"], uuid=d["uuid"]) for d in devices)
    return Document(paste.tool.name, "nvlink", devices=shown, detail={"devices": devices})


def _parse_link(link: int, value: str) -> dict[str, Any]:
    speed = parse_number(value) if "/s" in value.lower() else None
    return {"link": link, "gb_s": speed, "active": speed is not None or bool(_WORKS.search(value))}


def parse_versions(paste: PastedOutput) -> Document | None:
    """Parse versions picked from `-q`: the driver's and the runtime's, with those of the firmware or without."""
    found = {match[1].strip().lower(): match[2] for line in paste.lines if (match := _LINE.match(line[:200]))}
    if "driver" not in found or not found.keys() & {"xpu-rt", "sbl", "pbl"}:
        return None
    firmware = {name: found[name] for name in ("pbl", "pcie", "sbl", "all", "cpld") if name in found}
    return Document(
        paste.tool.name,
        "query-text",
        driver_version=cell_value(found["driver"]),
        runtime_version=cell_value(found.get("xpu-rt")),
        detail={"firmware": firmware or None},
    )

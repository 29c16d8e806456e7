"""Parses the short outputs of xpu_smi: the list of devices, the states of links, and lines of versions from -q."""

from __future__ import annotations

import re
from typing import Any

from envcheck.core.model import CellRemark, Device, Document
from envcheck.core.tool_text import parse_number
from probes.smi import cell_words, device_cells, list_output
from probes.smi.pasted_output import PastedOutput, cell_value

_DEVICE = re.compile(
    r"(?:^|\s)XPU\s{1,4}(\d{1,4})\s?:\s{0,4}(\S.{0,60}?)\s{1,8}\(?(?:UUID\s?:\s{0,4})?([A-Z]{3}-[\w*.?-]{4,80})\s{0,4}\)?\s*$"
)
_START = re.compile(r"[\s>#]{0,8}XPU(?P<gap>\s{1,8})(?:(?P<index>\d{1,4})\s?:)?")
_UUID = re.compile(r"\(?(?:UUID\s?:\s{0,4})?([A-Z]{3}-[\w*.?-]{4,80})\s{0,4}\)?$")
_OPEN = re.compile(r"(?:^|\s)XPU\s{1,4}(\d{1,4})\s?:\s{0,4}(\S.{0,60}?)?\s*$")
_LINE_LIMIT = 300  # characters
_LINK = re.compile(r"\s{0,24}(?:XPU)?-?Link\s{1,4}(\d{1,3})\s?[:,]\s?(\S.{0,120})$", re.IGNORECASE)
_LINE = re.compile(r"\s{0,40}([A-Za-z][\w -]{1,30}?) ?(?:Version)\s{0,60}:\s{0,4}(\d[\w.]{0,40}|N/A)\s*$")
_WORKS = re.compile(r"(?<!in)\b(?:active|up|enabled|on)\b", re.IGNORECASE)


def parse_device_list(paste: PastedOutput) -> Document | None:
    """Parse `-L`: XPU 0: P800 OAM  GPU-ed733bb8-..."""
    devices: list[Device] = []
    cut = False
    remarks: list[CellRemark] = []
    lines = [line if len(line) <= _LINE_LIMIT else "" for line in paste.lines]
    rows = [_read_device_line(line, below) for line, below in zip(lines, [*lines[1:], ""], strict=True)]
    if not any(rows):
        return None
    for at, (cells, device) in enumerate(zip(rows, device_cells.make_listed_devices(rows), strict=True)):
        if cells and device:
            devices.append(device)
            remarks += [CellRemark(paste.numbers[at], *each) for each in device_cells.list_unreadable(cells)]
            cut = False
        elif lines[at].strip():
            cut = bool(devices) and bool(_OPEN.match(lines[at]))
    return (
        Document(paste.tool.name, "list", truncated=cut, devices=tuple(devices), remarks=tuple(remarks))
        if devices
        else None
    )


def _read_device_line(line: str, below: str) -> dict[str, str | None] | None:
    """Return the cells of a device's line, of which some may be masked or blank; None for another line.

    Without a UUID it is whole where the line below is of a device with the same name.
    """
    if "XPU" not in line:
        return None
    found = _DEVICE.search(line)
    if found and cell_words.is_uuid(found[3]):
        return {"index": found[1], "name": found[2], "uuid": found[3]}
    start = _START.match(line)
    if not start:
        return None
    name, uuid = _split_uuid(line[start.end() :].strip())
    if uuid is not None:
        return list_output.read_damaged_cells(start, name, uuid)
    other = _DEVICE.search(below) if start["index"] else None
    return {"index": start["index"], "name": name, "uuid": ""} if other and other[2] == name else None


def _split_uuid(text: str) -> tuple[str, str | None]:
    """Return a name and the UUID behind it, or what is in its place behind a wide gap or in brackets."""
    if found := _UUID.search(text):
        return text[: found.start()], found[1]
    mark = "(UUID" if "(UUID" in text else "  "
    name, _, uuid = text.rpartition(mark)
    return (name, uuid.strip(" :)")) if name else (text, None)


def parse_link_states(paste: PastedOutput) -> Document | None:
    """Parse `xpulink -s`: below each device one line per link, such as `Link 0: active`."""
    devices: list[dict[str, Any]] = []
    for line in paste.lines:
        if len(line) > _LINE_LIMIT:
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

"""Parses the short outputs of xpu_smi: the list of devices, the states of links, and lines of versions from -q."""

from __future__ import annotations

import re
from typing import Any

from envcheck.core.model import Device, Document
from envcheck.core.tool_text import parse_number
from probes.smi.pasted_output import PastedOutput, cell_value

_DEVICE = re.compile(
    r"(?:^|\s)XPU\s{1,4}(\d{1,4})\s?:\s{0,4}(\S.{0,60}?)\s{1,8}\(?(?:UUID\s?:\s{0,4})?([A-Z]{3}-[\w*.?-]{4,80})\s{0,4}\)?\s*$"
)
_OPEN = re.compile(r"(?:^|\s)XPU\s{1,4}(\d{1,4})\s?:\s{0,4}(\S.{0,60}?)?\s*$")
_LINK = re.compile(r"\s{0,24}(?:XPU)?-?Link\s{1,4}(\d{1,3})\s?[:,]\s?(\S.{0,120})$", re.IGNORECASE)
_LINE = re.compile(r"\s{0,40}([A-Za-z][\w -]{1,30}?) ?(?:Version)\s{0,60}:\s{0,4}(\d[\w.]{0,40}|N/A)\s*$")
_WORKS = re.compile(r"(?<!in)\b(?:active|up|enabled|on)\b", re.IGNORECASE)


def parse_device_list(paste: PastedOutput) -> Document | None:
    """Parse `-L`: XPU 0: P800 OAM  GPU-ed733bb8-..."""
    devices: list[Device] = []
    cut = False
    for line in paste.lines:
        if len(line) > 300:
            continue
        if found := _DEVICE.search(line) if "XPU" in line else None:
            devices.append(Device(index=int(found[1]), name=cell_value(found[2]), uuid=found[3]))
            cut = False
        elif line.strip():
            cut = bool(devices) and bool(_OPEN.match(line))
    return Document(paste.tool.name, "list", truncated=cut, devices=tuple(devices)) if devices else None


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

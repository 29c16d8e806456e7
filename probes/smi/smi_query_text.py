"""`nvidia-smi -q` and `ixsmi -q`: "Key : value" lines in sections, whose indentation a paste may have lost.

==============NVSMI LOG==============
Driver Version                            : 460.32.03
GPU 00000000:01:00.0
    Product Name                          : Tesla T4
    FB Memory Usage
        Total                             : 15109 MiB
So a value is known by its key where that is unique, else by the section line that stands last before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.model import Device, Document, Process
from probes.smi import smi_device
from probes.smi.smi_paste import Paste, said

_TITLE = re.compile(r"={3,}\s?\w{0,12}SMI LOG\s?={3,}", re.IGNORECASE)
_GPU = re.compile(r"\s{0,12}GPU\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_PAIR = re.compile(r"(\s{0,40})([A-Za-z][^:\n]{0,60}?)\s{0,60}:(?:\s+(.*)|$)")
_SECTION = re.compile(r"(\s{0,40})([A-Za-z][\w .()/-]{1,60})$")
_KEYS = {"product name", "gpu uuid", "driver version", "persistence mode", "serial number", "vbios version", "bus id"}

_POWER = ("gpu power readings", "gpu ceiling power limit", "power readings")  # the second: 610
# Field of Device → (section, key) pairs, newest wording first; section "" is any.
_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "name": (("", "product name"),),
    "uuid": (("", "gpu uuid"),),
    "bus_id": (("", "bus id"),),
    "temperature_c": (("", "gpu current temp"), ("temperature", "gpu")),
    "fan_percent": (("", "fan speed"),),
    "perf_state": (("", "performance state"),),
    "power_w": tuple((s, f"{k} draw") for s in _POWER for k in ("average power", "power", "instantaneous power")),
    "power_limit_w": tuple((s, f"{k}power limit") for s in _POWER for k in ("current ", "", "enforced ")),
    "utilization_percent": (("utilization", "gpu"),),
    "memory_used_mib": (("fb memory usage", "used"), ("memory usage", "used")),
    "memory_total_mib": (("fb memory usage", "total"), ("memory usage", "total")),
    "clock_sm_mhz": (("clocks", "sm"),),
    "clock_memory_mhz": (("clocks", "memory"),),
    "mig_mode": (("mig mode", "current"),),
    "persistence": (("", "persistence mode"),),
}
_EXTRA = {"serial": ("", "serial number"), "minor_number": ("", "minor number"), "compute_mode": ("", "compute mode"),
          "display_active": ("", "display active"), "ecc_mode": ("ecc mode", "current"),
          "vbios_version": ("", "vbios version"), "board_id": ("", "board id")}  # fmt: skip


@dataclass
class _Block:
    """One GPU, or what stands before the first: sections in order, each with its pairs; the first has no name."""

    bus_id: str | None = None
    sections: list[tuple[str, dict[str, str]]] = field(default_factory=lambda: [("", {})])
    processes: list[dict[str, str]] = field(default_factory=list)

    def get(self, section: str, key: str) -> str | None:
        """The last section of that name counts: MIG devices stand before the GPU's own."""
        if section:
            found = [pairs[key] for name, pairs in self.sections if name == section and key in pairs]
            return said(found[-1]) if found else None
        return next((said(pairs[key]) for _, pairs in self.sections if key in pairs), None)


def parse(paste: Paste) -> Document | None:
    pairs = [found for line in paste.lines if (found := _PAIR.match(line))]
    keys = {found[2].lower() for found in pairs if found[3]}
    titled = "smi log" in paste.lowered and any(map(_TITLE.search, paste.lines))
    if not titled and len(keys & _KEYS) < 3:
        return None
    blocks = _blocks(paste.lines, titled)
    gpus = [block for block in blocks[1:] if block.bus_id or block.get("", "product name") or block.get("", "gpu uuid")]
    if not titled and not gpus:
        return None
    whole = _Block(sections=[part for block in blocks for part in block.sections])
    return Document(
        paste.tool.name,
        "query-text",
        tool_version=_version(whole, r"(ix-ml|nvidia-smi)\b"),
        driver_version=_version(whole, r"(driver|kmd) version"),
        cuda_version=_version(whole, r"cuda (umd )?version"),
        truncated=_truncated(paste, gpus),
        devices=tuple(_device(block, at) for at, block in enumerate(gpus)),
        processes=tuple(_process(process, at) for at, block in enumerate(gpus) for process in block.processes),
        detail={
            "timestamp": whole.get("", "timestamp"),
            "attached_gpus": whole.get("", "attached gpus"),
            "per_device": [_extra(block) for block in gpus],
        },
    )


def _blocks(lines: tuple[str, ...], titled: bool) -> list[_Block]:
    """A GPU begins at its bus id's line; where fields were picked out by hand, at its product name."""
    blocks = [_Block()]
    headed = any(map(_GPU.match, lines))
    skip_below: int | None = None  # indentation of "MIG Device", whose sections are not the GPU's
    for line in lines:
        if gpu := _GPU.match(line):
            blocks.append(_Block(gpu[1]))
            skip_below = None
        elif pair := _PAIR.match(line):
            key, value = pair[2].lower(), (pair[3] or "").strip()
            skip_below = skip_below if skip_below is not None and len(pair[1]) > skip_below else None
            if not headed and key == "product name":
                blocks.append(_Block())
            if skip_below is None:
                _put(blocks[-1], key, value)
        elif (section := _SECTION.match(line.rstrip())) and (titled or len(blocks) > 1):
            if section[2].lower() == "mig device":
                skip_below = len(section[1])
            elif skip_below is None or len(section[1]) <= skip_below:
                skip_below = None
                blocks[-1].sections.append((section[2].lower(), {}))
    return blocks


def _put(block: _Block, key: str, value: str) -> None:
    if not value:
        block.sections.append((key, {}))
    elif key == "process id":
        block.processes.append({"pid": value})
    elif block.processes and key in ("type", "name", "used gpu memory") and key not in block.processes[-1]:
        block.processes[-1][key] = value
    else:
        block.sections[-1][1].setdefault(key, value)


def _version(block: _Block, label: str) -> str | None:
    for _, pairs in block.sections:
        for key, value in pairs.items():
            if re.match(label, key) and (found := re.match(r"\d[\w.]*", value)):
                return found[0]
    return None


def _device(block: _Block, index: int) -> Device:
    cells = {
        name: next((value for place in places if (value := block.get(*place))), None)
        for name, places in _PLACES.items()
    }
    cells["bus_id"] = cells["bus_id"] or block.bus_id
    cells["ecc_uncorrected"] = _uncorrected(block)
    return smi_device.device(cells, index)


def _extra(block: _Block) -> dict[str, Any]:
    extra = {key: block.get(*place) for key, place in _EXTRA.items()}
    extra["ecc_mode"] = extra["ecc_mode"] or block.get("", "ecc mode")
    return extra


def _process(process: dict[str, str], index: int) -> Process:
    return smi_device.process({**process, "memory": process.get("used gpu memory")}, index)


def _uncorrected(block: _Block) -> str | None:
    """Between the last 'Volatile' and 'Aggregate': the total of 'Double Bit', or all that is uncorrectable."""
    names = [name for name, _ in block.sections]
    if "volatile" not in names:
        return None
    start = len(names) - 1 - names[::-1].index("volatile")
    stop = next((at for at in range(start + 1, len(names)) if names[at] == "aggregate"), start + 1)
    for name, pairs in block.sections[start:stop]:
        if name == "double bit":
            own = [value for key, value in pairs.items() if key != "total"]
            return said(pairs.get("total")) or smi_device.total(own)
    pairs = block.sections[start][1]
    return smi_device.total([value for key, value in pairs.items() if "uncorrectable" in key])


def _truncated(paste: Paste, gpus: list[_Block]) -> bool:
    """A key without a value or a section without keys at the end; or a full answer that stops before the processes."""
    last = next((line for line in reversed(paste.lines) if line.strip()), "")
    pair = _PAIR.match(last)
    if (pair and not pair[3]) or (not pair and last.startswith("  ") and _SECTION.match(last.rstrip())):
        return True
    full = [block for block in gpus if block.get("", "product name") and any(n == "pci" for n, _ in block.sections)]
    return any(not _reaches_processes(block) for block in full)


def _reaches_processes(block: _Block) -> bool:
    return bool(block.processes) or any(
        "processes" in name or any("processes" in key for key in pairs) for name, pairs in block.sections
    )

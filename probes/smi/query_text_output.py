"""Parses `nvidia-smi -q` and `ixsmi -q`: "Key : value" lines in sections; a paste may have lost the indentation.

==============NVSMI LOG==============
Driver Version                            : 460.32.03
GPU 00000000:01:00.0
    Product Name                          : Tesla T4
    FB Memory Usage
        Total                             : 15109 MiB

A value is identified by its key if that is unique, else by the last section line before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

from envcheck.core.model import CellRemark, Device, Document, Process
from probes.smi import device_cells
from probes.smi.csv_fields import BRAND
from probes.smi.pasted_output import LINE_LIMIT, PastedOutput, cell_value

_TITLE = re.compile(r"(?<!=)={3,}\s?\w{0,12}SMI LOG\s?={3,}", re.IGNORECASE)
_GPU = re.compile(r"\s{0,40}GPU\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_PAIR = re.compile(r"(\s{0,40})([A-Za-z][^:\n]{0,60}?)\s{0,60}:(?:\s+(.*)|$)")
_COMPLETE = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d|\d+(?:\.\d+)? (?:MiB|W|C|MHz|%)|N/A")
_NUMBER = re.compile(r"\d[\w.]*")
_SECTION = re.compile(r"(\s{0,40})([A-Za-z][\w .()/-]{1,60})$")
_KEYS = {"product name", "gpu uuid", "driver version", "persistence mode", "serial number", "vbios version", "bus id"}

_STARTS = ("product name", "serial number", "gpu uuid", "bus id")
_FIELDS = {"total", "used", "gpu", "gpu uuid", "minor number", "gpu current temp", "power draw", "product name"}
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
    "clock_sm_mhz": (("clocks", "sm"), ("clocks", "cluster")),
    "clock_memory_mhz": (("clocks", "memory"),),
    "mig_mode": (("mig mode", "current"),),
    "persistence": (("", "persistence mode"),),
}
_EXTRA = {"serial": ("", "serial number"), "minor_number": ("", "minor number"), "compute_mode": ("", "compute mode"),
          "display_active": ("", "display active"), "ecc_mode": ("ecc mode", "current"),
          "vbios_version": ("", "vbios version"), "board_id": ("", "board id")}  # fmt: skip


# Keys that always have a value: an empty one is continued below.
_IDENTIFIERS = ("gpu uuid", "bus id", "serial number")  # without blanks
_VALUED = {key for places in _PLACES.values() for section, key in places if not section} | {*_IDENTIFIERS}
# Key → form of the value below it; of any other key the default.  A section below an empty value has no digit.
_CONTINUED = {"gpu uuid": re.compile(r"[A-Z]{3}-\S+|N/A"), "bus id": re.compile(r"[0-9A-Fa-f]{4,8}:\S+|N/A")}
_ANY_CONTINUED = re.compile(rf".*\d.*|\[?N/A\]?|Enabled|Disabled|(?:{BRAND.pattern}).*", re.IGNORECASE)


class _Pair(NamedTuple):
    """A key in lower case with its value, "" without one, and the blanks before it."""

    indent: int
    key: str
    value: str


class _Value(NamedTuple):
    """The text of a value, and the index of its line."""

    text: str
    at: int


@dataclass
class _DeviceBlock:
    """One GPU, or the text before the first: sections in order, each with its pairs; the first has no name."""

    bus_id: str | None = None
    sections: list[tuple[str, dict[str, _Value]]] = field(default_factory=lambda: [("", {})])
    processes: list[dict[str, str]] = field(default_factory=list)

    def find_value(self, section: str, key: str) -> str | None:
        """Return the text of a value; None if it is empty."""
        found = self.values.get((section, key))
        return cell_value(found.text) if found else None

    @cached_property
    def values(self) -> dict[tuple[str, str], _Value]:
        """The values by section and key, of all sections by "".

        Of several sections of a name the last one counts, because those of MIG devices come first; of all the first.
        """
        values = {(name, key): value for name, pairs in self.sections for key, value in pairs.items() if name}
        for _, pairs in reversed(self.sections):
            values.update({("", key): value for key, value in pairs.items()})
        return values


def parse_query_text(paste: PastedOutput) -> Document | None:
    """Return the document of kind `query-text`, or None if it is not such output."""
    pairs = [pair for line in paste.lines if ":" in line and (pair := _match_pair(line))]
    keys = {pair.key for pair in pairs if pair.value}
    titled = "smi log" in paste.lowercase_text and any(map(_TITLE.search, paste.lines))
    partial = _is_selection(paste.lines) or (paste.tool.accepts_fragments and _is_partial(paste.lines, keys))
    if not titled and not partial and len(keys & _KEYS) < 3:
        return None
    lines = _join_values(paste.lines)
    blocks = _split_blocks(lines, titled or partial, _STARTS if partial else _STARTS[:1])
    gpus = [
        block
        for block in blocks[1:]
        if block.bus_id
        or block.find_value("", "product name")
        or block.find_value("", "gpu uuid")
        or (partial and block.find_value("", "bus id"))
    ]
    if not titled and not gpus:
        return None
    cells = [_find_cells(block) for block in gpus]
    whole = _DeviceBlock(sections=[part for block in blocks for part in block.sections])
    return Document(
        paste.tool.name,
        "query-text",
        tool_version=_find_version(whole, "ix-ml", "nvidia-smi"),
        driver_version=_find_version(whole, "driver version", "kmd version"),
        cuda_version=_find_version(whole, "cuda version", "cuda umd version"),
        runtime_version=_find_version(whole, paste.tool.runtime.lower()) if paste.tool.runtime else None,
        truncated=_is_truncated(paste, gpus),
        devices=tuple(_make_device(block, at, cells[at], partial) for at, block in enumerate(gpus)),
        processes=tuple(_make_process(process, at) for at, block in enumerate(gpus) for process in block.processes),
        detail={
            "timestamp": whole.find_value("", "timestamp"),
            "attached_gpus": whole.find_value("", "attached gpus"),
            "per_device": [_read_extra(block) for block in gpus],
        },
        remarks=tuple(_make_remarks(paste, cells)),
    )


@lru_cache(maxsize=4096)  # each line is matched some five times, and watch logs have many equal lines
def _match_pair(line: str) -> _Pair | None:
    found = _PAIR.match(line)
    return _Pair(len(found[1]), found[2].lower(), (found[3] or "").strip()) if found else None


def _join_values(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the lines with their indexes; a value that goes on below is joined, also over blank lines."""
    lengths = Counter(map(len, lines))
    hard = max((length for length, count in lengths.items() if count > 1), default=0)
    widest = max(lengths, default=0)
    joined: list[tuple[int, str]] = []
    for at, line in enumerate(lines):
        if _match_pair(line):
            joined.append((at, line))
        elif line.strip():
            is_identifier = len(lines[at - 1]) == widest and _names_device(lines[at - 1])
            is_full = is_identifier or len(lines[at - 1]) == hard
            glue = _find_glue(joined[-1][1], line, is_full) if joined else None
            if glue is None:
                joined.append((at, line))
            else:
                joined[-1] = joined[-1][0], f"{joined[-1][1]}{glue}{line.strip()}"[:LINE_LIMIT]
    return joined


def _names_device(line: str) -> bool:
    """Return whether the value of the line is a name without blanks, such as a UUID: one that is cut goes on below."""
    pair = _match_pair(line)
    return pair is not None and pair.key in _IDENTIFIERS


def _find_glue(before: str, line: str, is_full: bool) -> str | None:
    """Return what a wrap replaced between two lines, the second without a key, or None if that is a line of its own.

    An empty value goes on in a text of its form, which is no section at the margin of its key; another one further
    right than its key, or, below a full line (`is_full`), at the left edge.
    """
    pair = _match_pair(before)
    if line.lstrip().startswith(":"):
        return "" if not pair and _SECTION.match(before.rstrip()) else None
    if not pair or _GPU.match(line) or _TITLE.search(line):
        return None
    indent = len(line) - len(line.lstrip())
    if not pair.value:
        return " " if _is_value_of(pair.key, line.strip()) and not 0 < pair.indent == indent else None
    if indent > pair.indent + 4:
        return "" if pair.key in _IDENTIFIERS else " "
    is_complete = _COMPLETE.fullmatch(pair.value)
    return "" if is_full and indent == 0 < pair.indent and not is_complete else None


def _is_value_of(key: str, text: str) -> bool:
    """Return whether the key has its value always, and the text has the form of one."""
    return key in _VALUED and _CONTINUED.get(key, _ANY_CONTINUED).fullmatch(text) is not None


def _make_remarks(paste: PastedOutput, cells: Sequence[dict[str, _Value]]) -> Iterator[CellRemark]:
    for found in cells:
        for name, value in found.items():
            if device_cells.is_unreadable(name, value.text):
                yield CellRemark(paste.numbers[value.at], name, value.text)


def _is_selection(lines: tuple[str, ...]) -> bool:
    """Return whether the lines are what `-q | grep UUID` leaves: names of devices, and at most the command."""
    selected = (line for line in lines if line.strip() and "-smi" not in line)
    pairs = map(_match_pair, selected)
    first = next(pairs, None)
    return first is not None and all(pair and pair.value and pair.key in _STARTS for pair in chain((first,), pairs))


def _is_partial(lines: tuple[str, ...], keys: set[str]) -> bool:
    """Return whether a few fields of a device are left: below the line with its bus id, or with two of its names."""
    return len(keys & {*_STARTS, "minor number"}) > 1 or (bool(keys & _FIELDS) and any(map(_GPU.match, lines)))


def _split_blocks(lines: Sequence[tuple[int, str]], titled: bool, starts: tuple[str, ...]) -> list[_DeviceBlock]:
    """Return the blocks: a GPU starts at the line with its bus id, or, in a selection of fields, at the first of
    `starts` that the text has, such as its product name."""
    blocks = [_DeviceBlock()]
    headed = any(_GPU.match(line) for _, line in lines if "GPU" in line)
    keys = {pair.key for _, line in lines if (pair := _match_pair(line))} if len(starts) > 1 else set(starts)
    start = next((key for key in starts if key in keys), "")
    skip_below: int | None = None  # indentation of "MIG Device", whose sections are not the GPU's
    for at, line in lines:
        if gpu := _GPU.match(line) if "GPU" in line else None:
            blocks.append(_DeviceBlock(gpu[1]))
            skip_below = None
        elif pair := _match_pair(line):
            skip_below = skip_below if skip_below is not None and pair.indent > skip_below else None
            if not headed and pair.key == start:
                blocks.append(_DeviceBlock())
            if skip_below is None:
                _store_pair(blocks[-1], pair.key, _Value(pair.value, at))
        elif (section := _SECTION.match(line.rstrip())) and (titled or len(blocks) > 1):
            if section[2].lower() == "mig device":
                skip_below = len(section[1])
            elif skip_below is None or len(section[1]) <= skip_below:
                skip_below = None
                blocks[-1].sections.append((section[2].lower(), {}))
    return blocks


def _store_pair(block: _DeviceBlock, key: str, value: _Value) -> None:
    if not value.text:
        block.sections.append((key, {}))
    elif key == "process id":
        block.processes.append({"pid": value.text})
    elif block.processes and key in ("type", "name", "used gpu memory") and key not in block.processes[-1]:
        block.processes[-1][key] = value.text
    else:
        block.sections[-1][1].setdefault(key, value)


def _find_version(block: _DeviceBlock, *begins: str) -> str | None:
    """Return the first version whose key begins with one of these words."""
    values = (value for _, pairs in block.sections for key, value in pairs.items() if key.startswith(begins))
    return next((found[0] for value in values if (found := _NUMBER.match(value.text))), None)


def _find_cells(block: _DeviceBlock) -> dict[str, _Value]:
    """Return the cells of a device that are in the text, by field of Device: of several places the first value."""
    found: dict[str, _Value] = {}
    for name, places in _PLACES.items():
        values = [value for place in places if (value := block.values.get(place))]
        if values:
            found[name] = next((value for value in values if cell_value(value.text)), values[0])
    return found


def _make_device(block: _DeviceBlock, index: int, values: dict[str, _Value], partial: bool) -> Device:
    cells = {name: cell_value(values[name].text) if name in values else None for name in _PLACES}
    if partial:  # the section line may be left out
        cells["power_w"] = cells["power_w"] or block.find_value("", "power draw")
        cells["power_limit_w"] = cells["power_limit_w"] or block.find_value("", "enforced power limit")
    cells["bus_id"] = cells["bus_id"] or block.bus_id
    cells["ecc_uncorrected"] = _find_uncorrected(block)
    return device_cells.make_device(cells, index)


def _read_extra(block: _DeviceBlock) -> dict[str, Any]:
    extra = {key: block.find_value(*place) for key, place in _EXTRA.items()}
    extra["ecc_mode"] = extra["ecc_mode"] or block.find_value("", "ecc mode")
    return extra


def _make_process(process: dict[str, str], index: int) -> Process:
    return device_cells.make_process({**process, "memory": process.get("used gpu memory")}, index)


def _find_uncorrected(block: _DeviceBlock) -> str | None:
    """Return the counter between the last 'Volatile' and 'Aggregate': the total of 'Double Bit', or all uncorrectable
    ones."""
    names = [name for name, _ in block.sections]
    if "volatile" not in names:
        return None
    start = len(names) - 1 - names[::-1].index("volatile")
    stop = next((at for at in range(start + 1, len(names)) if names[at] == "aggregate"), start + 1)
    for name, pairs in block.sections[start:stop]:
        if name == "double bit":
            own = [value.text for key, value in pairs.items() if key != "total"]
            total = cell_value(pairs["total"].text) if "total" in pairs else None
            return total or device_cells.sum_counters(own)
    pairs = block.sections[start][1]
    return device_cells.sum_counters([value.text for key, value in pairs.items() if "uncorrectable" in key])


_FULL = ("pci", "mig mode", "inforom version", "driver model")  # sections that the name has below it in full outputs


def _is_truncated(paste: PastedOutput, gpus: list[_DeviceBlock]) -> bool:
    """Return whether the text ends with a key without value or an empty section, or a full output lacks the
    processes."""
    last = next((line for line in reversed(paste.lines) if line.strip()), "")
    pair = _match_pair(last)
    if (pair and not pair.value) or (not pair and last.startswith("  ") and _SECTION.match(last.rstrip())):
        return True
    full = [
        block for block in gpus if block.find_value("", "product name") and any(n in _FULL for n, _ in block.sections)
    ]
    return any(not _reaches_processes(block) for block in full)


def _reaches_processes(block: _DeviceBlock) -> bool:
    return bool(block.processes) or any(
        "processes" in name or any("processes" in key for key in pairs) for name, pairs in reversed(block.sections)
    )

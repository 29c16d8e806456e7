"""Parses the short outputs with one line per device: -L, nvlink, --version, -r, and parts of the table from grep or
awk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from envcheck.core.model import CellRemark, Device, Document
from envcheck.core.tool_text import parse_number
from probes.smi import cell_words, device_cells, error_output, table_cells, table_output
from probes.smi.pasted_output import PastedOutput, extract_table_lines
from probes.smi.table_output import ROW_LIMIT
from probes.smi.word_alignment import list_words

_GPU = re.compile(
    r"(?:^|\s)GPU\s{1,4}(\d{1,4}):\s{0,4}(|\S.{0,120}?)\s{0,4}\(UUID:\s{0,4}"
    r"(?:([^()\s]{1,90})\s{0,4}\)|(GPU(?:-[0-9a-f]{4,12}){5}(?<=-[0-9a-f]{12}))\s*$)"  # the bracket alone is lost
)
_GPU_START = re.compile(r"[\s>#]{0,8}GPU(?P<gap>\s{1,8})(?:(?P<index>\d{1,4}):)?")
_NAME_LIMIT, _UUID_LIMIT = 160, 90  # characters, with a mask of the index before the name
_OPEN = re.compile(
    r"(?:^|\s)(?:GPU\s(?:\s{0,3}\d{1,4}:\s|(?=[^()]{0,140}\(UUID:))|MIG\s{1,4}\S{1,20}\s{1,12}Device\s)"
    r"[^()]{0,140}(?:\([^()]{0,130}(?:\)[^()]{0,40})?){0,2}$"
)
_MIG = re.compile(r"MIG\s{1,4}(\S{1,20})\s{1,12}Device\s{1,4}(\d{1,4}):\s{0,4}\(UUID:\s{0,4}([^()\s]{1,90})\s{0,4}\)")
_LINK = re.compile(r"^\s{0,12}(?:IX|Nv)?Link\s{1,4}(\d{1,3})\s?[:,]\s?(\S.{0,160})$", re.IGNORECASE)
_LINK_WORD = re.compile(r"nv-?link|ixlink", re.IGNORECASE)
_VERSION = re.compile(r"^\s{0,8}((?:[A-Z][\w-]{1,20} ){1,2}version)\s{0,20}:\s{0,4}(\S.{0,79}?)\s*$", re.IGNORECASE)
_OWN = ("nvidia-smi", "ixsmi", "ix-smi", "ix-ml")
_RESET = re.compile(r"GPU\s{1,4}([0-9A-Fa-f:.]{7,16})\s{1,4}was successfully reset")
_MEMORY = re.compile(r"\d\s?MiB\s?/\s*\d+\s?MiB")
_FORMS_LIMIT = 8  # forms of rows in one log, of which each damaged row is compared with all
_READING = re.compile(r"\d+(?:\.\d+)?(?:C|W|MiB|MHz|%)$|N/A$|/$")


def parse_device_list(paste: PastedOutput) -> Document | None:
    """Parse `-L`; a last line without its closing bracket is not a device."""
    devices: list[Device] = []
    remarks: list[CellRemark] = []
    instances: list[dict[str, Any]] = []
    last = ""
    lines = _unwrap_lines(paste.lines)
    rows = _read_device_lines([line for _, line in lines])
    for (at, line), cells, device in zip(lines, rows, device_cells.make_listed_devices(rows), strict=True):
        if cells and device:
            devices.append(device)
            remarks += [CellRemark(paste.numbers[at], *each) for each in device_cells.list_unreadable(cells)]
            last = ""
        elif (found := _MIG.search(line)) and devices:
            place = {"gpu": devices[-1].index, "profile": found[1], "device": int(found[2]), "uuid": found[3]}
            instances.append(place)
            last = ""
        elif line.strip():
            last = line
    if not devices:
        return None
    if error := error_output.find_error(paste):  # the error and the devices that still respond
        return Document(paste.tool.name, "error", devices=tuple(devices), error=error, remarks=tuple(remarks))
    detail = {"mig_devices": instances or None}
    cut = bool(_OPEN.search(last))
    return Document(
        paste.tool.name, "list", truncated=cut, devices=tuple(devices), detail=detail, remarks=tuple(remarks)
    )


def _read_device_lines(lines: Sequence[str]) -> list[dict[str, str | None] | None]:
    """Return the cells of each line of `-L`, of which some may be masked or blank; None for another line."""
    rows: list[dict[str, str | None] | None] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        found = _GPU.search(line)
        cells = (
            {"index": found[1], "name": found[2], "uuid": found[3] or found[4]}
            if found
            else _read_damaged_line(line, below)
        )
        rows.append(cells)
    return rows


def _read_damaged_line(line: str, below: str) -> dict[str, str | None] | None:
    """Return the cells of a line with a mask; without its closing bracket it is whole where the line below is one."""
    head, mark, tail = line.partition("(UUID:")
    start = _GPU_START.match(head) if mark else None
    uuid, bracket, rest = (part.strip() for part in tail.partition(")"))
    if not start or rest or len(uuid) > _UUID_LIMIT or (uuid and not bracket and not cell_words.is_unprinted(uuid)):
        return None  # another line, or cut in its UUID
    is_followed = bracket or _MIG.search(below) or ("(UUID:" in below and _GPU_START.match(below))
    return read_damaged_cells(start, head[start.end() :], uuid) if is_followed else None


def read_damaged_cells(start: re.Match[str], name: str, uuid: str) -> dict[str, str | None] | None:
    """Return the cells of a device's line, of which some are masked or blank; None for prose.

    `start` is a match of the word GPU, a gap, and the index if there is one; without it, the name may begin with the
    mask of the index.  A blank index leaves a wide gap, and then only a UUID shows that the line is a device's.
    """
    words = list_words(name) if len(name) < _NAME_LIMIT else []
    index = start["index"]
    if index is None and words and cell_words.is_unprinted(words[0].rstrip(":")):
        index = words.pop(0)
    elif index is None and len(start["gap"]) > 1 and cell_words.is_uuid(uuid):
        index = ""
    cells = {"index": index, "name": " ".join(words), "uuid": uuid}
    is_list = index is not None and (cell_words.is_uuid(uuid) or cell_words.is_unprinted(uuid))
    return cells if is_list and not all(map(cell_words.is_unprinted, cells.values())) else None


def _unwrap_lines(lines: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return the lines with their indexes, a wrapped GPU line joined up to its closing bracket; full lines were broken
    inside words."""
    out: list[tuple[int, str]] = []
    full = max(map(len, lines), default=0)
    for at, line in enumerate(lines):
        goes_on = out and ")" in line[:80] and "(" not in line[: line.index(")")][8:] and not _OPEN.search(line)
        first, last = out[-1] if out else (at, "")
        if goes_on and _OPEN.search(last) and not _GPU.search(last) and not _MIG.search(last):
            out[-1] = (first, last + line if len(last) == full else f"{last.rstrip()} {line.strip()}")
        else:
            out.append((at, line))
    return out


def parse_nvlink(paste: PastedOutput) -> Document | None:
    """Parse `nvlink -s` and similar: links below their GPU, or a message; an NVML error makes it an error."""
    devices: list[dict[str, Any]] = []
    seen = False
    lines = [line for _, line in _unwrap_lines(paste.lines)]
    rows = _read_device_lines(lines)
    last: dict[str, Any] = {}
    for at, (row, device) in enumerate(zip(rows, device_cells.make_listed_devices(rows), strict=True)):
        if row:  # links below a repeated line are not of the device above it
            last = {"links": []}
        if device:
            last = {"index": device.index, "name": device.name, "uuid": device.uuid, "links": []}
            devices.append(last)
        elif last and (link := _LINK.match(lines[at])):
            last["links"].append(_parse_link(link))
            seen = True
        elif last and _LINK_WORD.search(lines[at]) and not last["links"]:
            if error_output.is_nvml_result(" ".join(lines[at : at + 2])):
                return None
            last["message"] = lines[at].strip()
            seen = True
    if not seen:
        return None
    shown = tuple(Device(index=d["index"], name=d["name"], uuid=d["uuid"]) for d in devices)
    return Document(paste.tool.name, "nvlink", devices=shown, detail={"devices": devices})


def _parse_link(found: re.Match[str]) -> dict[str, Any]:
    value, link = found[2].strip(), int(found[1])
    if "inactive" in value.lower():
        return {"link": link, "gb_s": None, "active": False}
    if value.lower().endswith("gb/s"):
        return {"link": link, "gb_s": parse_number(value), "active": True}
    key, _, rest = value.partition(":")  # capabilities, error and throughput counters
    return {"link": link, key.strip(): rest.strip()}


def parse_version(paste: PastedOutput) -> Document | None:
    """Parse `--version`: names, a colon, a version; one of them is the management library's."""
    lines = {found[1].strip(): found[2] for line in paste.lines if (found := _VERSION.match(line))}
    named = {label.lower().removesuffix(" version"): value for label, value in lines.items() if value[0].isdigit()}
    own = {label.lower().removesuffix(" version") for label in lines} & {*_OWN, "nvml"}
    if len(lines) < 2 or not own:
        return None
    return Document(
        paste.tool.name,
        "version",
        tool_version=next((named[name] for name in _OWN if name in named), None),
        driver_version=named.get("driver") or named.get("kmd"),  # 610: 'Deprecated, see "KMD version" instead'
        cuda_version=named.get("cuda") or named.get("cuda umd"),
        detail={"nvml_version": named.get("nvml") or named.get("ixml"), "lines": lines},
    )


def parse_reset(paste: PastedOutput) -> Document | None:
    """Parse the output of a GPU reset (-r)."""
    devices = [{"bus_id": found[1], "reset": True} for found in _RESET.finditer(paste.text)]
    done = any(line.strip(" \t#/>.").lower() == "all done" for line in paste.lines)
    return Document(paste.tool.name, "reset", detail={"devices": devices, "done": done}) if devices else None


def parse_log(paste: PastedOutput) -> Document | None:
    """Parse lines that have only readings with units, or only the second rows of a table, as grep and awk print
    them."""
    rows = list(_read_by_units(paste.lines))
    table = [line for line in extract_table_lines(paste.lines) if len(line.text) < ROW_LIMIT]
    if not rows and not table_output.is_other_vendor(paste, [line.text for line in table]):
        rows = [(line.at, cells) for line in table if (cells := _read_second_row(line.text))]
    devices = tuple(device_cells.make_device(cells, at) for at, (_, cells) in enumerate(rows))
    remarks = tuple(
        CellRemark(paste.numbers[at], *each) for at, cells in rows for each in device_cells.list_unreadable(cells)
    )
    return Document(paste.tool.name, "log", devices=devices, remarks=remarks) if devices else None


def _head_labels(row: int) -> tuple[str, ...]:
    return table_cells.DEFAULT_HEAD["nvidia-smi"][row]


def _read_second_row(row: str) -> dict[str, str | None] | None:
    parts = row.strip("|").split("|")
    if len(parts) != 3 or not (_MEMORY.search(parts[1]) or table_output.has_readings(row)):
        return None
    cells: dict[str, str | None] = {}
    for labels, part in zip(_head_labels(1), parts, strict=True):
        cells.update(table_cells.read_cell(labels, part))
    return cells


def _read_by_units(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield index and values of the lines that have readings by their units: memory and at least one more.

    C, W (draw, limit), MiB (used, total), % (utilization).  A masked or missing reading has the unit that another line
    has in its place.
    """
    rows = [(at, words) for at, line in enumerate(lines) if 0 < len(line) < 200 and (words := _split_readings(line))]
    found = (tuple(map(_find_unit, words)) for _, words in rows)
    counts = Counter(units for units in found if units.count("MiB") == 2)
    forms = [units for units, _ in counts.most_common(_FORMS_LIMIT)]
    for at, words in rows:
        units = tuple(map(_find_unit, words))
        if units.count("MiB") != 2 or "" in units:
            words, units = next(filter(None, (_fit_units(words, form) for form in forms)), (words, units))
        if units.count("MiB") == 2:
            yield at, _name_readings(words, units)


def _split_readings(line: str) -> list[str]:
    """Return the words of a line of readings, of which few are masked; nothing for another line."""
    words = list_words(line)
    hidden = [word for word in words if not _READING.match(word)]
    is_log = len(words) > 2 and len(hidden) < 2 and all(map(cell_words.is_unprinted, hidden))
    return words if is_log else []


def _find_unit(word: str) -> str:
    """Return the unit of a reading, "" for a masked one."""
    return word.lstrip("0123456789.") if _READING.match(word) else ""


def _fit_units(words: Sequence[str], form: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]] | None:
    """Return the words of a row and their units in this form; a missing one is blank, also both of the same unit."""
    units = list(map(_find_unit, words))
    if len(words) == len(form):
        return (list(words), form) if all(own in ("", unit) for own, unit in zip(units, form, strict=True)) else None
    gaps = [at for at in range(len(form)) if units == [*form[:at], *form[at + 1 :]]]
    if not gaps:
        return None
    filled = [*words[: gaps[0]], "", *words[gaps[0] :]]
    return ["" if at in gaps else word for at, word in enumerate(filled)], form


def _name_readings(words: Sequence[str], units: Sequence[str]) -> dict[str, str | None]:
    by_unit: dict[str, list[str]] = {}
    for word, unit in zip(words, units, strict=True):
        by_unit.setdefault(unit, []).append(word)
    power, share = by_unit.get("W", []), by_unit.get("%", [])
    return {
        "temperature_c": next(iter(by_unit.get("C", [])), None),
        "power_w": power[0] if power else None,
        "power_limit_w": power[1] if len(power) > 1 else None,
        "memory_used_mib": by_unit["MiB"][0],
        "memory_total_mib": by_unit["MiB"][1],
        "utilization_percent": share[-1] if share else None,
        "fan_percent": share[0] if len(share) > 1 else None,
    }

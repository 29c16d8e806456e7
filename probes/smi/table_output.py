"""Parses the default table of nvidia-smi and its followers: a header with versions, devices, MIG devices, processes.

+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.103.01   Driver Version: 470.103.01   CUDA Version: 11.4     |      ixsmi: |  IX-ML: 4.3.0   Driver ...
|-------------------------------+----------------------+----------------------+      610: KMD Version, CUDA UMD Version
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
...                                                                                  see table_cells.py
|===============================+======================+======================|
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from envcheck.core.model import CellRemark, Document
from envcheck.core.tool_text import parse_whole_number
from probes.smi import cell_words, device_cells, process_rows, table_cells
from probes.smi.pasted_output import PastedOutput, TableLine, cell_value, extract_table_lines

ROW_LIMIT, ROWS_LIMIT = 400, 20_000  # larger than any real table, small enough for the patterns to be fast
_HEAD = re.compile(r"\|\s*(?:GPU\s+Name|Fan\s+Temp)\b(?!.{0,80}\bInstances\b)")  # nor "GPU Name ID Instances"
_SECTION_HEAD = re.compile(r"\|\s*GPU\s+GI\s+CI\b")  # of processes, or of MIG devices
_SECOND_HEAD = re.compile(r"\|\s*Fan\b")
_FIRST = re.compile(r"\|\s*\d+\s+[^\s\d|][^|]*\|")
_VERSION = r"\s*(?::\s*)?v?(\d[\w.]*)"
_WARNING = re.compile(r"(?m)^[ \t]*WARNING:[ \t]*(\S.*)$")
_OTHERS = re.compile(r"NVIDIA-SMI|IX-ML|XPU-SMI|npu-smi", re.IGNORECASE)
_TITLE = re.compile(r"\|\s*(?:(MIG devices)|(?:Compute )?Processes):", re.IGNORECASE)
_EDITED = re.compile(  # a row without its inner bars
    r"\|\s*(?P<index>\d{1,3})\s+(?P<name>[A-Za-z][^|]{1,60}?)\s+(?P<memory_used_mib>\d{1,9}\s?MiB)\s*/"
    r"\s*(?P<memory_total_mib>\d{1,9}\s?MiB)(?:\s+(?P<utilization_percent>\d{1,3}\s?%))?\s*\|?$"
)
_DIGIT = re.compile(r"\d")
_MEMORY = re.compile(r"\d\s?Mi?B\s*/")
_READINGS = 3  # values with their forms that only a device's second row has
_EXTRA = ("compute_mode", "display_active", "driver_model", "memory_text")


@dataclass
class _TableState:
    """The data read so far; `section` is head, devices, mig or processes."""

    head: list[tuple[str, ...]] = field(default_factory=list)
    layout: _Layout | None = None  # of the head so far
    section: str = ""
    in_head: bool = False
    after_rule: bool = False
    devices: list[tuple[dict[str, str | None], dict[str, Any]]] = field(default_factory=list)  # texts, values
    row: int = 0
    process_head: str = ""
    processes: list[dict[str, str | None]] = field(default_factory=list)
    mig: list[dict[str, Any]] = field(default_factory=list)
    banners: int = 0
    unread: list[tuple[TableLine, str, str]] = field(default_factory=list)  # row, field, cell


def parse_table(paste: PastedOutput) -> Document | None:
    """Return the document of kind `table`, or None if there is no such table."""
    lines = extract_table_lines(paste.lines)
    rows = [line.text for line in lines]
    if not _is_table(paste, rows):
        return None
    reading = _TableState()
    banners = _list_banner_rows(paste, rows)
    for at, line in enumerate(lines[:ROWS_LIMIT]):
        if at in banners:
            reading.banners += 1
            if reading.banners > 1 and reading.devices:
                break  # the next table of a `-l` loop, or of another host
            reading.after_rule = False
        elif len(line.text) <= ROW_LIMIT:
            _read_row(reading, paste, line, last=at == len(rows) - 1)
    is_read = reading.devices or reading.banners or reading.head or reading.processes or reading.mig
    return _make_document(paste, reading, rows) if is_read else None


def _is_table(paste: PastedOutput, rows: list[str]) -> bool:
    """Return whether there is a banner of this tool; or no banner, but rows with a bus id and rows with memory."""
    sight = [row for row in rows[:ROWS_LIMIT] if len(row) <= ROW_LIMIT]
    banners = _find_banners(sight)
    if banners:
        return any(re.search(paste.tool.banner, banner, re.IGNORECASE) for banner in banners)
    named = any(_FIRST.match(row) and table_cells.BUS_ID.search(row) for row in sight)
    whole = paste.tool.accepts_fragments or any(_MEMORY.search(row) or has_readings(row) for row in sight)
    return (named and whole) or any(map(_HEAD.match, sight)) or any(map(_SECTION_HEAD.match, sight))


def has_readings(row: str) -> bool:
    """Return whether most cells have values of a device's second row: its memory may be masked."""
    usual = table_cells.DEFAULT_HEAD["nvidia-smi"][1]
    cells = split_cells(row)
    return len(cells) == len(usual) and table_cells.count_values(usual, cells) >= _READINGS


def _list_banner_rows(paste: PastedOutput, rows: Sequence[str]) -> set[int]:
    """Return the indices of the rows with the tool's name and a version."""
    text = "\n".join(rows)
    banner = paste.tool.banner + r"[^\S\n]*(?::[^\S\n]*)?(?:[\d<N]|Driver Version)"
    starts = [0, *(found.start() for found in re.finditer(banner, text))]
    return set(accumulate(text.count("\n", *each) for each in pairwise(starts)))


def _find_banners(rows: list[str]) -> set[str]:
    return {found[0].lower() for row in rows if "ersion" in row and (found := _OTHERS.search(row))}


def is_other_vendor(paste: PastedOutput, rows: list[str]) -> bool:
    """Return whether the rows are from another vendor's table."""
    return any(not re.search(paste.tool.banner, banner, re.IGNORECASE) for banner in _find_banners(rows))


@dataclass(frozen=True, eq=False)  # compared by identity, which is fast
class _RowForm:
    """What a row is by its text alone, whatever its digits.

    `title` is the section that it begins, `has_index` whether an index is before its first inner bar; `shapes` are its
    cells with zeros for all digits, the first of them at `start`, and `begins` is whether it begins with an index.  The
    cells of the last row end with their bars.
    """

    is_rule: bool = False
    title: str | None = None
    is_head: bool = False
    has_index: bool = False
    shapes: tuple[str, ...] = ()
    start: int = 0
    begins: bool = False
    is_filled: bool = False
    is_last: bool = False


@lru_cache(maxsize=4096)  # a watch log repeats its rows
def _classify_row(row: str, is_last: bool) -> _RowForm:
    return _classify_shape(row.translate(table_cells.ZEROS), is_last)


@lru_cache(maxsize=1024)
def _classify_shape(row: str, is_last: bool) -> _RowForm:
    if _is_rule(row):
        return _RowForm(is_rule=True)
    parts = tuple(split_cells(row, drop_open=is_last))
    begins = _FIRST.match("|" + "|".join(parts) + "|") is not None
    title, is_head, has_index = _parse_title(row), bool(_HEAD.match(row)), bool(_FIRST.match(row))
    start = row.startswith("|")
    return _RowForm(False, title, is_head, has_index, parts, start, begins, any(map(str.strip, parts)), is_last)


def _read_row(reading: _TableState, paste: PastedOutput, line: TableLine, *, last: bool) -> None:
    row = line.text
    form = _classify_row(row, last)
    if form.is_rule:
        reading.in_head = reading.in_head and "=" not in row and not reading.process_head
        reading.after_rule = True
        return
    if form.title is not None:
        reading.section, reading.in_head = form.title, True
        reading.process_head = ""
    elif form.is_head:
        reading.section, reading.in_head = "devices", True
        if not reading.head and _SECOND_HEAD.match(row):  # words of the first row are cut, or the row is lost
            reading.head.append(table_cells.DEFAULT_HEAD[paste.tool.name][0])
        reading.head.append(tuple(split_cells(row)))
        reading.layout = None
    elif reading.in_head and not (reading.section == "devices" and form.has_index):
        _read_head_row(reading, row)
    else:
        reading.in_head = False
        _READ_ROW.get(reading.section or "devices", _read_device_row)(reading, paste, line, form)
    reading.after_rule = False


def _is_rule(row: str) -> bool:
    return ("---" in row or "===" in row) and row[0] in "|+" and not row.strip("-=+| ")


def _parse_title(row: str) -> str | None:
    found = _TITLE.match(row)
    return None if not found else "mig" if found[1] else "processes"


def _read_head_row(reading: _TableState, row: str) -> None:
    if reading.section == "processes":
        reading.process_head += " " + row.strip("| ")
    elif reading.section == "devices":
        reading.head.append(tuple(split_cells(row)))
        reading.layout = None


def split_cells(row: str, *, drop_open: bool = False) -> list[str]:
    """Return the cells between the bars.  `drop_open`: drop a last cell without its closing bar, which may be
    truncated."""
    parts = row.strip().removeprefix("|").split("|")
    return parts[:-1] if drop_open or not parts[-1].strip() else parts


@dataclass(frozen=True, eq=False)  # compared by identity, which is fast
class _Layout:
    """The rows of a head; `usual` are those that the tool prints, where they have as many cells."""

    rows: tuple[tuple[str, ...], ...]
    usual: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=256)
def _make_layout(rows: tuple[tuple[str, ...], ...], tool: str) -> _Layout:
    """Return the layout of a head, or the tool's usual one without a head."""
    usual = table_cells.DEFAULT_HEAD.get(tool, ())
    rows = rows or usual
    same = [len(usual) >= len(rows) and len(usual[at]) == len(row) for at, row in enumerate(rows)]
    return _Layout(rows, tuple(usual[at] if same[at] else () for at in range(len(rows))))


def _read_device_row(reading: _TableState, paste: PastedOutput, line: TableLine, form: _RowForm) -> None:
    head = reading.layout or _make_layout(tuple(reading.head), paste.tool.name)
    reading.layout = head
    if len(form.shapes) == 1 and not reading.head:
        if found := _EDITED.match(line.text):
            reading.devices.append((found.groupdict(), device_cells.read_values(found.groupdict())))
            return None
        return _read_process_row(reading, paste, line, form)
    if _begins_device(reading, head, form):
        if len(form.shapes) < len(head.rows[0]):
            return None  # truncated before the first row was complete: not a device
        reading.devices.append(({}, {}))
        reading.row = 0
    elif not reading.devices:
        return None
    else:
        reading.row += 1
        if _is_third_row(head, form.shapes):  # at any position
            reading.row = max(reading.row, 2)
    if reading.row < len(head.rows):
        row = _read_cells(head, reading.row, line.text, form)
        cells, values = reading.devices[-1]
        cells.update(row.texts)
        values.update(row.values)
        if row.unread:
            reading.unread += [(line, name, text) for name, text in row.unread]
    return None


class _RowCells(NamedTuple):
    """The texts of a device's row and its values, by name, and the names and texts of those that are unreadable."""

    texts: Mapping[str, str | None]
    values: Mapping[str, Any]
    unread: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=4096)  # a watch log repeats its rows
def _read_cells(head: _Layout, number: int, row: str, form: _RowForm) -> _RowCells:
    """Return what a row has below this row of the head."""
    places = _find_places(head, number, form)
    if places is not None:
        texts = {name: row[begin:end] if begin >= 0 else None for name, begin, end in places}
        return _RowCells(texts, device_cells.read_values(texts))
    texts = {}
    unread: list[tuple[str, str]] = []
    heading, usual = head.rows[number], head.usual[number]
    for at, part in enumerate(split_cells(row, drop_open=form.is_last)[: len(heading)]):
        values = table_cells.read_cell_of_row(heading, usual, at, part)
        texts.update(values.texts)
        unread += values.unread
        texts.update((name, None) for name, text in values.unread if not cell_words.is_failure(text))
    return _RowCells(texts, device_cells.read_values(texts), tuple(unread))


@lru_cache(maxsize=4096)  # rows of a form differ by their digits
def _find_places(head: _Layout, number: int, form: _RowForm) -> tuple[tuple[str, int, int], ...] | None:
    """Return name, begin and end of each value in a row of this form, or None if a cell has another form than usual."""
    found = table_cells.find_places(head.rows[number], head.usual[number], form.shapes)
    starts = list(accumulate((len(cell) + 1 for cell in form.shapes), initial=form.start))
    if found is None:
        return None
    return tuple((name, starts[at] + begin if begin >= 0 else -1, starts[at] + end) for name, at, begin, end in found)


def _begins_device(reading: _TableState, head: _Layout, form: _RowForm) -> bool:
    """Return whether this is a device's first row: by its index; if that is unreadable, by its place or its values."""
    if form.begins or not form.is_filled:
        return form.begins
    if len(form.shapes) != len(head.rows[0]):
        return False
    if reading.after_rule and reading.head:
        return True
    return _is_most_like_first(head, form.shapes, reading.row + 1 if reading.devices else len(head.rows))


@lru_cache(maxsize=4096)
def _is_most_like_first(head: _Layout, parts: tuple[str, ...], following: int) -> bool:
    """Return whether more cells have the forms of a first row's columns than those of any other row, and not all have
    those of the row that should follow."""
    if following < len(head.rows) and table_cells.fits_heading(head.rows[following], parts):
        return False
    return table_cells.count_values(head.rows[0], parts) > max(
        (table_cells.count_values(row, parts) for row in head.rows[1:]), default=0
    )


@lru_cache(maxsize=4096)
def _is_third_row(head: _Layout, parts: tuple[str, ...]) -> bool:
    """Return whether this is a row with an empty left cell, not a second row that lost its values there."""
    rows = head.rows
    if not parts or parts[0].strip() or len(rows) < 2:
        return bool(parts) and not parts[0].strip()
    third = rows[2] if len(rows) > 2 else [""] * len(rows[1])
    return _has_third_form(tuple(zip(rows[1], third, parts, strict=False)), len(rows) > 2)


def _has_third_form(cells: Sequence[tuple[str, str, str]], has_third: bool) -> bool:
    """Return whether the cells, each with the headings of second and third row, are more like those of a third row."""
    if any(cell.strip() and not below.strip() for _, below, cell in cells) and has_third:
        return False
    known = [each for each in cells if not each[1].strip() or table_cells.list_names(each[1])]
    others = [each for each in cells if each not in known]
    if len(others) > 1 and all(table_cells.count_values([above], [cell]) for above, _, cell in others):
        return False  # each has the form of its column in the second row
    second = table_cells.count_values([above for above, _, _ in known], [cell for _, _, cell in known])
    return second <= table_cells.count_values([below for _, below, _ in known], [cell for _, _, cell in known])


def _read_mig_row(reading: _TableState, paste: PastedOutput, line: TableLine, form: _RowForm) -> None:
    reading.mig += process_rows.parse_mig_row(split_cells(line.text, drop_open=form.is_last))


def _read_process_row(reading: _TableState, paste: PastedOutput, line: TableLine, form: _RowForm) -> None:
    parts = split_cells(line.text, drop_open=form.is_last)
    head, cell = reading.process_head, parts[0] if len(parts) == 1 else ""
    if not _DIGIT.search(cell):
        return  # "No running processes found"
    if row := process_rows.parse_process_row(head, cell) or process_rows.parse_damaged_row(head, cell):
        reading.processes.append(row)
        reading.unread += [(line, name, text) for name, text in process_rows.list_unreadable(head, row)]


_READ_ROW = {"devices": _read_device_row, "mig": _read_mig_row, "processes": _read_process_row}


def _make_document(paste: PastedOutput, reading: _TableState, rows: list[str]) -> Document:
    devices = tuple(device_cells.complete_device(values, at) for at, (_, values) in enumerate(reading.devices))
    texts = [cells for cells, _ in reading.devices]
    head = " ".join(row for row in rows[:40] if "=" not in row)
    return Document(
        paste.tool.name,
        "table",
        tool_version=_find_version(paste.tool.banner, head),
        driver_version=_find_version("(?:Driver|KMD) Version", head),
        cuda_version=_find_version("CUDA (?:UMD )?Version", head),
        runtime_version=_find_version(paste.tool.runtime, head) if paste.tool.runtime else None,
        truncated=_is_truncated(reading, rows),
        devices=devices,
        processes=tuple(device_cells.make_process(p, parse_whole_number(p["gpu"])) for p in reading.processes),
        detail={
            "per_device": [{key: cell_value(cells.get(key)) for key in _EXTRA} for cells in texts],
            "errors": [
                {"index": device.index, "values": sorted(k for k, v in cells.items() if v and "ERR!" in v)}
                for device, cells in (zip(devices, texts, strict=True) if "ERR!" in paste.text else ())
                if any(v and "ERR!" in v for v in cells.values())
            ],
            "mig_devices": reading.mig,
            "processes": reading.processes,
            "warnings": [text.rstrip() for text in _WARNING.findall(paste.text)] if "WARNING:" in paste.text else [],
        },
        remarks=tuple(_make_remarks(reading, paste)),
    )


def _make_remarks(reading: _TableState, paste: PastedOutput) -> Iterator[CellRemark]:
    for line, name, text in reading.unread:
        yield CellRemark(paste.numbers[line.at], name, text)


def _find_version(label: str, head: str) -> str | None:
    found = re.search(label + _VERSION, head)
    return found[1] if found else None


def _is_truncated(reading: _TableState, rows: list[str]) -> bool:
    """Return whether the header is missing, the last line is cut, or no border closes the rows.

    A border of `=` closes a head, and one below another border opens a table: neither is the end of an output.
    """
    last = rows[-1]
    if not reading.head or not reading.devices or last[-1] not in "|+":
        return True
    if not _is_rule(last) or "=" in last or reading.in_head:
        return True
    if _is_rule(rows[-2]) and "=" not in rows[-2]:
        return True
    border = next((row for row in reversed(rows[:-1]) if _is_rule(row)), last)
    return len(last) < len(border)

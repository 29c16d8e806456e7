"""Parses `npu-smi info`: the table of chips, two rows each, and the table of processes below it.

Known formats by their header words: 310 (Chip, Device), 310P, 910 (HBM-Usage), A3 (Phy-ID, two chips per NPU), 950
(separate cells for NPU ID and Name; NPU Util); tool versions 1.8 to 26.x.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.model import CellRemark, Device, Document, Process
from envcheck.core.text_table import TableGap, TableRow
from envcheck.core.tool_text import cell_text
from probes.ascend import npu_columns, npu_errors, version_files
from probes.ascend.npu_columns import ColumnLayout, DamagedRow, Values
from probes.ascend.npu_page import TOOL, OutputPage
from probes.ascend.npu_rows import PrintedRow, list_rows

_BANNER = re.compile(r"npu-smi\s+(?P<tool>[^\s|]+)(?:\s+Version\s*:\s*(?P<driver>[^\s|]*))?", re.IGNORECASE)
_IDLE = re.compile(r"No running processes found in NPU\s+(\d+)", re.IGNORECASE)
_SIGNS = ("Health", "Bus-Id", "Process", "Version", "Usage", "OK", "NPU")
_FIRST_ROW = re.compile(
    r"(?m)^\W{0,20}\d{1,9}\s[^|\n]{1,80}\|[^|\n]{1,40}\|(?:\s*(?:[\d.]{1,12}|NA|N/A|-)\s){2}[^|/\n]{0,40}/[^|/\n]{1,40}\|"
)  # a chip's first row without a header, whatever its health is
_CRASH = re.compile(
    r"Segmentation fault|core dumped|^(?:.{0,80}: )?(?:\s*\d+ )?\s*(?:Killed|Aborted|Bus error|Terminated)\b"
    r"|terminate called|double free|stack smashing|段错误|已杀死|已放弃|已终止|核心已转储",
    re.IGNORECASE,
)


@dataclass
class _InfoTableState:
    """The data of the rows so far."""

    top: ColumnLayout | None = None
    bottom: ColumnLayout | None = None
    work: ColumnLayout | None = None
    pending: Values | None = None
    tool: str | None = None
    driver: str | None = None
    truncated: bool = False
    devices: list[Device] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    partial: list[Values] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    remarks: list[CellRemark] = field(default_factory=list)
    last: int = -1
    rule: TableRow | None = None
    last_form: str = ""  # of the last row: head, idle or data
    rules: int = 0
    doubled: bool = False  # a rule of `=` is among them
    headed: int = -1  # rules above the last header row
    begun: int = -1  # rules above the pending row
    full: int = 0
    tabled: bool = False
    guessed: bool = False


def read_info_table(page: OutputPage) -> Document | None:
    """Return the document of kind `info`, or None if there is no such table."""
    if "|" not in page.body or not (page.has_any(*_SIGNS) or _FIRST_ROW.search(page.body)):
        return None
    seen = _InfoTableState()
    gap = False
    below: list[TableRow] = []  # rules below the last row
    for line in list_rows(page.lines):
        if isinstance(line, TableGap):
            below.clear()
            gap = True  # counts only if the table continues after it, or has started
            seen.truncated |= seen.tabled
        elif line.row.is_rule:
            seen.rule, seen.rules = line.row, seen.rules + 1
            seen.doubled |= line.row.is_double
            below.append(line.row)
            seen.full = max(seen.full, line.row.width)
        else:
            before = seen.tabled
            below.clear()
            seen.last = max(seen.last, line.at)
            _read_row(seen, line, page)
            seen.truncated |= gap and seen.tabled and not before
    seen.truncated |= _stops_early(seen, below)
    return _make_document(seen, page) if seen.tabled or seen.tool else None


def _stops_early(seen: _InfoTableState, below: list[TableRow]) -> bool:
    """Return whether the rows stop before the end of the table, by its rules and its NPUs without processes.

    +===========================+===============+====================================================+      the end
    +---------------------------+---------------+----------------------------------------------------+      a beginning
    +------------------------------------------------------------------------------------------------+      next chip
    """
    named = {*seen.idle, *(process.device for process in seen.processes)}
    if seen.idle and not (seen.remarks or seen.unread) and not {device.npu for device in seen.devices} <= named:
        return True  # a table that names one NPU without processes names each
    if not seen.rules:
        return False
    if not below:
        return seen.last_form != "idle"
    is_opened = len(below) > 1 or seen.work is None
    return seen.last_form == "head" or (is_opened and seen.doubled and not below[-1].is_double)


def _read_row(seen: _InfoTableState, line: PrintedRow, page: OutputPage) -> None:
    row = line.row
    if row.cells[0][:1].isdigit():  # no header starts with a digit: most rows need no further test
        _read_data_row(seen, line, page)
        return
    text = " | ".join(row.cells)
    head = npu_columns.parse_layout(row.cells) if row.closed and npu_columns.is_header(row.cells) else None
    if banner := _BANNER.match(text):
        seen.tool, seen.driver = cell_text(banner["tool"]), cell_text(banner["driver"])
    elif idle := _IDLE.match(text):
        seen.idle.append(int(idle[1]))
        seen.tabled, seen.last_form = True, "idle"
    elif text == "...":
        seen.truncated |= seen.tabled
    elif head is not None:
        _apply_header(seen, npu_columns.place_heading(row.cells, line.printed))
    else:
        _read_data_row(seen, line, page)


def _apply_header(seen: _InfoTableState, head: ColumnLayout) -> None:
    """Store the layout of a header row, which applies to the rows up to the next header."""
    seen.tabled, seen.last_form, seen.headed = True, "head", seen.rules
    if "pid" in head.keys:
        _close_pending(seen)
        seen.work = head
    elif "bus_id" in head.keys:
        seen.bottom, seen.work = head, None
    else:
        seen.top, seen.work = head, None


def _close_pending(seen: _InfoTableState) -> None:
    """End a device whose second row is missing or cut: its first row counts, and the text is truncated."""
    if seen.pending is not None:
        seen.partial.append(seen.pending)
        seen.devices.append(npu_columns.make_device(seen.pending))
        seen.truncated = True
        seen.pending = None


def _read_data_row(seen: _InfoTableState, line: PrintedRow, page: OutputPage) -> None:
    row = line.row
    seen.last_form = "data"
    if seen.work and (values := seen.work.read_row(row)) is not None:
        seen.processes.append(npu_columns.make_process(values))
        return
    if values := _read_whole_row(seen, seen.top, npu_columns.guess_top, row):
        _begin_device(seen, values)
    elif seen.pending is not None and (values := _read_whole_row(seen, seen.bottom, npu_columns.guess_bottom, row)):
        _complete_device(seen, values)
    elif not _read_damaged_row(seen, line, page) and seen.tabled:
        _keep_unread_row(seen, row)


def _read_whole_row(
    seen: _InfoTableState, layout: ColumnLayout | None, guess: Callable[..., ColumnLayout | None], row: TableRow
) -> Values | None:
    """Return the values of a row without damage; a header that was cut has fewer columns than its rows."""
    if layout and (values := layout.read_row(row)) is not None:
        return values
    guessed = guess(row, layout.keys if layout else None)
    if guessed is None:
        return None
    seen.guessed |= layout is None or len(layout.keys) < len(guessed.keys)
    return guessed.read_row(row)


def _begin_device(seen: _InfoTableState, values: Values) -> None:
    if values != seen.pending:
        _close_pending(seen)
    seen.pending, seen.tabled, seen.begun = values, True, seen.rules


def _complete_device(seen: _InfoTableState, values: Values) -> None:
    seen.devices.append(npu_columns.make_device((seen.pending or {}) | values))
    seen.pending = None


def _read_damaged_row(seen: _InfoTableState, line: PrintedRow, page: OutputPage) -> bool:
    """Read a row with cells that cannot be read; return whether it is a row of the current table."""
    if seen.work:
        found = seen.work.read_damaged_row(line.row, line.printed)
        if found:
            seen.processes.append(npu_columns.make_process(found.values))
    else:
        found = _read_damaged_chip(seen, line)
    if found is None:
        return False
    layout = seen.work or seen.bottom
    seen.truncated |= layout is not None and len(line.row.cells) < len(layout.cells)
    number = page.numbers[line.at] if line.at >= 0 else 0
    seen.remarks += [CellRemark(number, name, text) for name, text in found.unread]
    return True


def _read_damaged_chip(seen: _InfoTableState, line: PrintedRow) -> DamagedRow | None:
    """Read the first or second row of a chip: the one that it fits better, else the one whose turn it is.

    A rule is between two chips: without one above it, the row below a first row is more likely its second one.
    """
    first = _read_damaged_cells(seen.top, line, is_first=True)
    second = _read_damaged_cells(seen.bottom, line, is_first=False)
    if first and not first.fits and seen.rules == seen.headed:
        return None  # a header row that cannot be read: a rule is between headers and data
    fits = (first.fits if first else -1, second.fits if second else -1)
    margin = 0 if seen.pending is None else 1 if seen.begun != seen.rules or not seen.rules else 2
    if first and fits[0] >= fits[1] + margin:
        _begin_device(seen, first.values)
        seen.guessed |= seen.top is None
        return first
    if second and seen.pending is not None:
        _complete_device(seen, second.values)
        seen.guessed |= seen.bottom is None
        return second
    return None


def _read_damaged_cells(layout: ColumnLayout | None, line: PrintedRow, is_first: bool) -> DamagedRow | None:
    if layout is not None:
        return layout.read_damaged_row(line.row, line.printed)
    return npu_columns.guess_damaged_row(line.row, is_first)


def _keep_unread_row(seen: _InfoTableState, row: TableRow) -> None:
    """Mark a truncated row; keep a row that matches no header, so that new firmware formats are noticed."""
    short = seen.top is not None and len(row.cells) < len(seen.top.cells)
    if not row.closed or (short and seen.work is None):
        seen.truncated = True
        if seen.pending is not None and seen.bottom and seen.begun == seen.rules:
            values = {} if row.closed else seen.bottom.read_cut_cell(row.cells)
            cells = row.cells if row.closed else row.cells[:-1]  # the last cell may be cut
            seen.pending = seen.pending | values | seen.bottom.read_cut_row(row._replace(cells=cells))
        elif seen.top and (values := seen.top.read_cut_row(row)):
            _close_pending(seen)
            seen.partial.append(values)
    if any(row.cells) and len(seen.unread) < 10:
        seen.unread.append(" | ".join(row.cells))


def _find_bare_banner(seen: _InfoTableState, page: OutputPage) -> None:
    """Find a banner without bars: a selection may start after the first bar."""
    found = (_BANNER.match(line.strip()) for line in page.lines if "npu-smi" in line and "ersion" in line)
    if banner := next((one for one in found if one and one["driver"]), None):
        seen.tool, seen.driver = cell_text(banner["tool"]), cell_text(banner["driver"])


def _make_document(seen: _InfoTableState, page: OutputPage) -> Document:
    _close_pending(seen)
    if seen.tool is None:
        _find_bare_banner(seen, page)
    lost = seen.top is not None and not seen.devices
    cut_rule = seen.rule is not None and not seen.rule.closed and (page.cut or not _is_collapsed(seen, page))
    detail: dict[str, Any] = {
        "chip_count": len(seen.devices),
        "npu_count": len({d.npu for d in seen.devices}),
        "no_process_npus": seen.idle,
        "partial_chips": seen.partial,
        "chip_table_present": seen.top is not None or bool(seen.devices),
    }
    if seen.unread:
        detail["unread"] = seen.unread
    if toolkit := version_files.read_package_fields(page):
        detail["toolkit"] = toolkit
    return Document(
        tool=TOOL,
        kind="info",
        tool_version=seen.tool,
        driver_version=seen.driver,
        truncated=seen.truncated or lost or cut_rule or seen.guessed or not seen.tabled or _has_crashed(seen, page),
        devices=tuple(seen.devices),
        processes=tuple(seen.processes),
        error=npu_errors.find_warning(page),
        detail=detail,
        remarks=tuple(seen.remarks),
    )


def _has_crashed(seen: _InfoTableState, page: OutputPage) -> bool:
    """Return whether the tool crashed while it printed the table: the shell prints this below the last row."""
    below = (line for line in page.lines[seen.last + 1 :] if line.strip() and line.lstrip()[0] not in "|+")
    return bool(_CRASH.search(next(below, "")))


def _is_collapsed(seen: _InfoTableState, page: OutputPage) -> bool:
    """Return whether the rows are much narrower than the rules: a web page collapsed blanks, so a short rule proves
    nothing."""
    widths = [len(line.strip()) for line in page.lines if line.lstrip().startswith("|") and line.rstrip().endswith("|")]
    return bool(widths) and max(widths) < seen.full * 0.9

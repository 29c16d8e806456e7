"""Parses `npu-smi info`: the table of chips, two rows each, and the table of processes below it.

Known formats by their header words: 310 (Chip, Device), 310P, 910 (HBM-Usage), A3 (Phy-ID, two chips per NPU), 950
(separate cells for NPU ID and Name; NPU Util); tool versions 1.8 to 26.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.model import CellRemark, Device, Document, Process
from envcheck.core.text_table import TableGap, TableRow, parse_rows
from envcheck.core.tool_text import cell_text
from probes.ascend import npu_columns, npu_errors, version_files
from probes.ascend.npu_columns import ColumnLayout, Values
from probes.ascend.npu_page import TOOL, OutputPage

_BANNER = re.compile(r"npu-smi\s+(?P<tool>[^\s|]+)(?:\s+Version\s*:\s*(?P<driver>[^\s|]*))?", re.IGNORECASE)
_IDLE = re.compile(r"No running processes found in NPU\s+(\d+)", re.IGNORECASE)


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
    remarks: list[tuple[TableRow, str, str]] = field(default_factory=list)
    rule: TableRow | None = None
    rules: int = 0
    full: int = 0
    tabled: bool = False
    guessed: bool = False


def read_info_table(page: OutputPage) -> Document | None:
    """Return the document of kind `info`, or None if there is no such table."""
    if "|" not in page.body or not page.has_any("Health", "Bus-Id", "Process", "Version", "Usage", "OK", "NPU"):
        return None
    seen = _InfoTableState()
    gap = False
    for row in parse_rows(page.lines):
        if isinstance(row, TableGap):
            gap = True  # counts only if the table continues after it, or has started
            seen.truncated |= seen.tabled
        elif row.is_rule:
            seen.rule, seen.rules = row, seen.rules + 1
            seen.full = max(seen.full, row.width)
        else:
            before = seen.tabled
            _read_row(seen, row)
            seen.truncated |= gap and seen.tabled and not before
    return _make_document(seen, page) if seen.tabled or seen.tool else None


def _read_row(seen: _InfoTableState, row: TableRow) -> None:
    if row.cells[0][:1].isdigit():  # no header starts with a digit: most rows need no further test
        _read_data_row(seen, row)
        return
    line = " | ".join(row.cells)
    head = npu_columns.parse_layout(row.cells) if row.closed and npu_columns.is_header(row.cells) else None
    if banner := _BANNER.match(line):
        seen.tool, seen.driver = cell_text(banner["tool"]), cell_text(banner["driver"])
    elif idle := _IDLE.match(line):
        seen.idle.append(int(idle[1]))
        seen.tabled = True
    elif line == "...":
        seen.truncated |= seen.tabled
    elif head is not None:
        _apply_header(seen, head)
    else:
        _read_data_row(seen, row)


def _apply_header(seen: _InfoTableState, head: ColumnLayout) -> None:
    """Store the layout of a header row, which applies to the rows up to the next header."""
    seen.tabled = True
    if "pid" in head.keys:
        _drop_pending(seen)
        seen.work, seen.pending = head, None
    elif "bus_id" in head.keys:
        seen.bottom, seen.work = head, None
    else:
        seen.top, seen.work = head, None


def _drop_pending(seen: _InfoTableState) -> None:
    """Drop a first row without its second row: it is not a device, and the text is truncated."""
    if seen.pending is not None:
        seen.partial.append(seen.pending)
        seen.truncated = True


def _read_data_row(seen: _InfoTableState, row: TableRow) -> None:
    if seen.work and (values := seen.work.read_row(row)) is not None:
        seen.processes.append(npu_columns.make_process(values))
        return
    top, bottom = seen.top or npu_columns.guess_top(row), seen.bottom or npu_columns.guess_bottom(row)
    if top and (values := top.read_row(row)) is not None:
        if values != seen.pending:
            _drop_pending(seen)
        seen.pending, seen.tabled = values, True
        seen.guessed |= seen.top is None
    elif bottom and seen.pending is not None and (values := bottom.read_row(row)) is not None:
        seen.devices.append(npu_columns.make_device(seen.pending | values))
        seen.pending = None
        seen.guessed |= seen.bottom is None
    elif seen.tabled and not _read_damaged_row(seen, row):
        _keep_unread_row(seen, row)


def _read_damaged_row(seen: _InfoTableState, row: TableRow) -> bool:
    """Read a row with cells that cannot be read; return whether it is a row of the current table."""
    layout = seen.work or (seen.top if seen.pending is None else seen.bottom)
    found = layout.read_damaged_row(row) if layout and any(row.cells) else None
    if found is None:
        return False
    values, unread = found
    if seen.work:
        seen.processes.append(npu_columns.make_process(values))
    elif seen.pending is None:
        seen.pending = values
    else:
        seen.devices.append(npu_columns.make_device(seen.pending | values))
        seen.pending = None
    seen.remarks += [(row, name, text) for name, text in unread]
    return True


def _keep_unread_row(seen: _InfoTableState, row: TableRow) -> None:
    """Mark a truncated row; keep a row that matches no header, so that new firmware formats are noticed."""
    short = seen.top is not None and len(row.cells) < len(seen.top.cells)
    if not row.closed or (short and seen.work is None):
        seen.truncated = True
        if seen.top and (values := seen.top.read_cut_row(row)):
            _drop_pending(seen)
            seen.pending = None
            seen.partial.append(values)
    if any(row.cells) and len(seen.unread) < 10:
        seen.unread.append(" | ".join(row.cells))


def _find_bare_banner(seen: _InfoTableState, page: OutputPage) -> None:
    """Find a banner without bars: a selection may start after the first bar."""
    found = (_BANNER.match(line.strip()) for line in page.lines if "npu-smi" in line and "ersion" in line)
    if banner := next((one for one in found if one and one["driver"]), None):
        seen.tool, seen.driver = cell_text(banner["tool"]), cell_text(banner["driver"])


def _make_document(seen: _InfoTableState, page: OutputPage) -> Document:
    _drop_pending(seen)
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
        truncated=seen.truncated or lost or cut_rule or seen.guessed or not seen.tabled,
        devices=tuple(seen.devices),
        processes=tuple(seen.processes),
        error=npu_errors.find_warning(page),
        detail=detail,
        remarks=tuple(_make_remarks(seen, page)),
    )


def _make_remarks(seen: _InfoTableState, page: OutputPage) -> Iterator[CellRemark]:
    """Yield the cells that could not be read, with the first line that has all cells of their row."""
    for row, name, text in seen.remarks:
        lines = (at for at, line in enumerate(page.lines, 1) if "|" in line and all(cell in line for cell in row.cells))
        yield CellRemark(next(lines, 0), name, text)


def _is_collapsed(seen: _InfoTableState, page: OutputPage) -> bool:
    """Return whether the rows are much narrower than the rules: a web page collapsed blanks, so a short rule proves
    nothing."""
    widths = [len(line.strip()) for line in page.lines if line.lstrip().startswith("|") and line.rstrip().endswith("|")]
    return bool(widths) and max(widths) < seen.full * 0.9

"""`npu-smi info`: the table of chips, two rows each, and the table of processes below it.

Layouts read so far, by their header words: 310 (Chip, Device), 310P, 910 (HBM-Usage), A3 (Phy-ID, two chips an NPU),
950 (cells of their own for NPU ID and Name; NPU Util); tool versions 1.8 to 26.x.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.model import Device, Document, Process
from envcheck.core.text import said
from envcheck.core.text_table import Gap, Row, rows
from probes.ascend import ascend_files, npu_columns, npu_errors
from probes.ascend.npu_columns import Layout, Values
from probes.ascend.npu_page import TOOL, Page

_BANNER = re.compile(r"npu-smi\s+(?P<tool>[^\s|]+)(?:\s+Version\s*:\s*(?P<driver>[^\s|]*))?", re.IGNORECASE)
_IDLE = re.compile(r"No running processes found in NPU\s+(\d+)", re.IGNORECASE)


@dataclass
class _Seen:
    """What the rows so far have told."""

    top: Layout | None = None
    bottom: Layout | None = None
    work: Layout | None = None
    pending: Values | None = None
    tool: str | None = None
    driver: str | None = None
    truncated: bool = False
    devices: list[Device] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    partial: list[Values] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    rule: Row | None = None
    rules: int = 0
    full: int = 0
    tabled: bool = False
    guessed: bool = False


def read(page: Page) -> Document | None:
    """The document of kind `info`, or None where no such table stands."""
    if "|" not in page.body or not page.has("Health", "Bus-Id", "Process", "Version", "Usage", "OK", "NPU"):
        return None
    seen = _Seen()
    gap = False
    for row in rows(page.lines):
        if isinstance(row, Gap):
            gap = True  # counts only where the table goes on after it, or has begun
            seen.truncated |= seen.tabled
        elif row.is_rule:
            seen.rule, seen.rules = row, seen.rules + 1
            seen.full = max(seen.full, row.width)
        else:
            before = seen.tabled
            _take(seen, row)
            seen.truncated |= gap and seen.tabled and not before
    return _document(seen, page) if seen.tabled or seen.tool else None


def _take(seen: _Seen, row: Row) -> None:
    if row.cells[0][:1].isdigit():  # no header begins so: most rows need no closer look
        _data(seen, row)
        return
    line = " | ".join(row.cells)
    head = npu_columns.layout(row.cells) if row.closed and npu_columns.is_header(row.cells) else None
    if banner := _BANNER.match(line):
        seen.tool, seen.driver = said(banner["tool"]), said(banner["driver"])
    elif idle := _IDLE.match(line):
        seen.idle.append(int(idle[1]))
        seen.tabled = True
    elif line == "...":
        seen.truncated |= seen.tabled
    elif head is not None:
        _header(seen, head)
    else:
        _data(seen, row)


def _header(seen: _Seen, head: Layout) -> None:
    """A header row says what the rows below it hold, until the next."""
    seen.tabled = True
    if "pid" in head.keys:
        _drop(seen)
        seen.work, seen.pending = head, None
    elif "bus_id" in head.keys:
        seen.bottom, seen.work = head, None
    else:
        seen.top, seen.work = head, None


def _drop(seen: _Seen) -> None:
    """A first row whose second row never came: no device, and the text is cut."""
    if seen.pending is not None:
        seen.partial.append(seen.pending)
        seen.truncated = True


def _data(seen: _Seen, row: Row) -> None:
    if seen.work and (values := seen.work.read(row)) is not None:
        seen.processes.append(npu_columns.process(values))
        return
    top, bottom = seen.top or npu_columns.guess_top(row), seen.bottom or npu_columns.guess_bottom(row)
    if top and (values := top.read(row)) is not None:
        if values != seen.pending:
            _drop(seen)
        seen.pending, seen.tabled = values, True
        seen.guessed |= seen.top is None
    elif bottom and seen.pending is not None and (values := bottom.read(row)) is not None:
        seen.devices.append(npu_columns.device(seen.pending | values))
        seen.pending = None
        seen.guessed |= seen.bottom is None
    elif seen.tabled:
        _unread(seen, row)


def _unread(seen: _Seen, row: Row) -> None:
    """A row that is cut says so; one that fits no header is kept, so that new firmware speaks up."""
    short = seen.top is not None and len(row.cells) < len(seen.top.cells)
    if not row.closed or (short and seen.work is None):
        seen.truncated = True
        if seen.top and (begun := seen.top.begin(row)):
            _drop(seen)
            seen.pending = None
            seen.partial.append(begun)
    if any(row.cells) and len(seen.unread) < 10:
        seen.unread.append(" | ".join(row.cells))


def _bare_banner(seen: _Seen, page: Page) -> None:
    """The banner's bars may be lost: a selection began behind the first of them."""
    found = (_BANNER.match(line.strip()) for line in page.lines if "npu-smi" in line and "ersion" in line)
    if banner := next((one for one in found if one and one["driver"]), None):
        seen.tool, seen.driver = said(banner["tool"]), said(banner["driver"])


def _document(seen: _Seen, page: Page) -> Document:
    _drop(seen)
    if seen.tool is None:
        _bare_banner(seen, page)
    lost = seen.top is not None and not seen.devices
    cut_rule = seen.rule is not None and not seen.rule.closed and (page.cut or not _collapsed(seen, page))
    detail: dict[str, Any] = {
        "chip_count": len(seen.devices),
        "npu_count": len({d.npu for d in seen.devices}),
        "no_process_npus": seen.idle,
        "partial_chips": seen.partial,
        "chip_table_present": seen.top is not None or bool(seen.devices),
    }
    if seen.unread:
        detail["unread"] = seen.unread
    if toolkit := ascend_files.package(page):
        detail["toolkit"] = toolkit
    return Document(
        tool=TOOL,
        kind="info",
        tool_version=seen.tool,
        driver_version=seen.driver,
        truncated=seen.truncated or lost or cut_rule or seen.guessed or not seen.tabled,
        devices=tuple(seen.devices),
        processes=tuple(seen.processes),
        error=npu_errors.warning(page),
        detail=detail,
    )


def _collapsed(seen: _Seen, page: Page) -> bool:
    """Rows much narrower than the rules: a web page squeezed the blanks, so that a short rule proves no cut."""
    widths = [len(line.strip()) for line in page.lines if line.lstrip().startswith("|") and line.rstrip().endswith("|")]
    return bool(widths) and max(widths) < seen.full * 0.9

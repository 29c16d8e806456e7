"""Parses the tables of xpu_smi up to driver 4.x: DEVICES, VIDEO and PROCESSES, each column found by its header.

Runtime Version: 4.0
Driver Version: 4.0
  DEVICES
-------------------------------------------------------------------------------------
| DevID |   PCI Addr   | Model |    INODE   | State | UseRate |     L3     |    Memory     |
-------------------------------------------------------------------------------------
|     0 | 0000:06:00.0 | K200  | /dev/xpu0  |     N |     0 % | 14 / 16 MB | 504 / 8064 MB |

Columns differ between releases, and authors leave some out.  MB are MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envcheck.core.model import Device, Document, Process
from probes.kunlunxin import old_columns
from probes.paste.host_marks import HostText
from probes.paste.wrapped_lines import join_wrapped_lines
from probes.smi import device_cells
from probes.smi.pasted_output import PastedOutput, cell_value, extract_table_lines

ROW_LIMIT, ROWS_LIMIT = 600, 10_000
_PAIR = re.compile(r"(\d{1,12})\s{0,4}(?:[MG]i?B)?\s{0,4}/\s{0,4}(\d{1,12})")
_SIZE = re.compile(r"\d{1,12}\s{0,4}[MG]i?B")
_VERSION = re.compile(
    r"^[^\S\n]{0,80}(Runtime|Driver) Version[^\S\n]{0,10}[:=][^\S\n]{0,4}v?(\d[\w.]{0,30})",
    re.IGNORECASE | re.MULTILINE,
)
_ONLY_VERSIONS = re.compile(r"^\s{0,40}Runtime Version: \S{1,20}\s{0,8}\n\s{0,40}Driver Version: \S", re.MULTILINE)
_TITLES = ("DEVICES", "VIDEO", "PROCESSES")
_RULE = re.compile(r"\s{0,80}[|+]?-{8}[-+|]*\s{0,4}$")


@dataclass
class _OldTables:
    """The data read so far; `head` has the labels of the table that is being read."""

    head: list[str] = field(default_factory=list)
    is_headed: bool = False
    is_cut: bool = False
    devices: list[Device] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)


def parse_old_tables(paste: PastedOutput) -> Document | None:
    """Return the document of kind `table`, or None if there are no such tables."""
    if "XPU-SMI" in paste.text or not ("|" in paste.text or "Runtime Version" in paste.text):
        return None
    lines = join_wrapped_lines(HostText("", [*paste.lines], paste.numbers)).lines
    tables = _read_rows([line.text for line in extract_table_lines(lines)[:ROWS_LIMIT]])
    versions = {found[1].lower(): found[2] for found in reversed([*_VERSION.finditer(paste.text)])}
    if (
        not tables.devices
        and not (tables.is_headed and "runtime" in versions)
        and not _ONLY_VERSIONS.search(paste.text)
    ):
        return None
    return Document(
        paste.tool.name,
        "table",
        driver_version=versions.get("driver"),
        runtime_version=versions.get("runtime"),
        truncated=tables.is_cut or not tables.is_headed or not _is_closed(lines),
        devices=tuple(tables.devices),
        processes=tuple(tables.processes),
    )


def _read_rows(rows: Sequence[str]) -> _OldTables:
    tables = _OldTables()
    is_closed = False  # the head ends with a bar, and so does each whole row
    for at, row in enumerate(rows):
        cells = _split_cells(row)
        labels = [old_columns.normalize_label(cell) for cell in cells]
        if _is_head(row, labels):
            if tables.devices and old_columns.is_device_head(labels):
                break  # the next table of a loop
            tables.head, tables.is_headed, is_closed = labels, True, row.rstrip().endswith("|")
        elif (at == len(rows) - 1 or is_closed) and not row.rstrip().endswith(("|", "...")) and len(cells) < 40:
            tables.is_cut = True
        elif old_columns.is_process_head(tables.head):
            tables.processes += _read_process(tables.head, cells, tables.processes[-1:])
        elif not tables.head or old_columns.is_device_head(tables.head):
            devices = _read_device(tables.head, cells, len(tables.devices))
            tables.devices += devices
            tables.is_cut = tables.is_cut or (bool(devices) and not tables.head)
    return tables


def _split_cells(row: str) -> list[str]:
    return [cell.strip() for cell in row[:ROW_LIMIT].strip().removeprefix("|").removesuffix("|").split("|")]


def _is_head(row: str, labels: list[str]) -> bool:
    return old_columns.is_head(labels) and not _PAIR.search(row)


def _read_device(head: list[str], cells: list[str], position: int) -> tuple[Device, ...]:
    """Return the device of a row; none for a row that does not name one."""
    named = old_columns.name_cells(head, cells) if head else old_columns.guess_columns(cells)
    is_whole = "memory" in named or len(cells) >= len(head) > 0
    memory = _PAIR.search(named.pop("memory", ""))
    if memory:
        named |= {"memory_used_mib": memory[1], "memory_total_mib": memory[2]}
    is_named = named.get("index", "").isdecimal() or old_columns.is_bus_id(named.get("bus_id", ""))
    if not memory and not (is_named and is_whole):
        return ()  # cut before its memory
    if not any(cell_value(named.get(name)) for name in ("bus_id", "node", "name")):
        return ()
    if not old_columns.is_bus_id(named.get("bus_id", "")):
        named.pop("bus_id", None)
    return (device_cells.make_device({key: cell_value(cell) for key, cell in named.items()}, position),)


def _read_process(head: list[str], cells: list[str], above: Sequence[Process]) -> Iterable[Process]:
    """Return the process of a row; only the first one of a device has its number."""
    cells = [*cells[: len(head) - 1], " | ".join(cells[len(head) - 1 :])]  # a command may have bars
    named = dict(zip(head, cells, strict=False))
    is_whole = len(cells) == len(head) and _SIZE.match(named.get("memory", ""))  # then only the PID cannot be read
    if not named.get("pid", "").isdecimal() and not is_whole:
        return ()
    number = named.get("devid", "")
    device = int(number) if number.isdecimal() and len(number) < 6 else None
    if not number and above:
        device = above[0].device
    shown = {"pid": named.get("pid"), "name": named.get("command"), "memory": named.get("memory")}
    return (device_cells.make_process(shown, device),)


def _is_closed(lines: Sequence[str]) -> bool:
    """Return whether a rule follows the last row, two rules a head without rows, and no title of another table."""
    last_row = max((at for at, line in enumerate(lines) if line.lstrip().startswith("| ")), default=-1)
    below = lines[last_row + 1 :]
    labels = [old_columns.normalize_label(cell) for cell in _split_cells(lines[last_row])] if last_row >= 0 else []
    rules = sum(_RULE.match(line) is not None for line in below)
    is_titled = any(line.strip() in _TITLES for line in below)
    return rules > bool(labels and _is_head(lines[last_row], labels)) and not is_titled

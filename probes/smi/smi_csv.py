"""CSV answers to --query-gpu, --query-compute-apps, --query-accounted-apps: `index, name, memory.used [MiB]`.

The fields come from the head; without one from the command line that was pasted along; without that from what the
values cannot but be (smi_csv_guess.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.model import Document
from probes.smi import smi_csv_guess, smi_device, smi_errors
from probes.smi.smi_csv_fields import ALONE, FIELDS, GROUPS, NO_DEVICE_A_ROW, PROCESS
from probes.smi.smi_paste import Paste, said

_UNIT = re.compile(r"\s*\[[^\[\]]{0,12}\]$")
_NAME = re.compile(r"[A-Za-z][\w.]{0,90}(?:\s*\[[^\[\]]{0,12}\])?$")
_COMMAND = re.compile(r"--query-[a-z-]{2,24}[= ]\s?[\"']?([A-Za-z][\w.]*(?:\s?,\s?[\w.]+)*)")
_VALUE = re.compile(r"-?\d+(?:\.\d+)?(?:\s?[A-Za-z%/]{1,6})?$|0x[0-9A-Fa-f]+$")
_SHAPES = {
    "uuid": re.compile(r"(?:GPU-|MIG-)?[0-9A-Za-z?][-0-9A-Za-z?/]{3,80}$"),
    "bus_id": re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$"),
    "perf_state": re.compile(r"P\d{1,2}$"),
    "mig_mode": re.compile(r"Enabled\*?$|Disabled\*?$"),
    "persistence": re.compile(r"Enabled$|Disabled$"),
    "name": re.compile(r"[^\s,].{0,119}$"),
}
_NUMERIC = {name for name in [*FIELDS.values(), "pid"] if name not in _SHAPES}
ROWS_LIMIT = 20_000
_PATIENCE = 3  # lines between the command and its answer: sudo's prompt, a banner


@dataclass(frozen=True)
class _Sheet:
    fields: tuple[str, ...] | None
    rows: tuple[tuple[str, ...], ...]
    headed: bool
    truncated: bool


def parse(paste: Paste) -> Document | None:
    asked = "--query-" in paste.text
    sheet = _with_head(paste.lines) or (_with_command(paste.lines) if asked else _guessed(paste.lines))
    if sheet is None or (not sheet.rows and smi_errors.find(paste)):
        return None
    names = [_UNIT.sub("", field) for field in sheet.fields or ()]
    cells = [dict(zip(names, row, strict=False)) for row in sheet.rows]
    of_processes = "pid" in names
    of_devices = not of_processes and not NO_DEVICE_A_ROW & set(names)
    return Document(
        paste.tool.name,
        "csv",
        tool_version=_common(cells, "ixml_version"),
        driver_version=_common(cells, "driver_version") or _common(cells, "kmd_version"),
        cuda_version=_common(cells, "cuda_version"),
        truncated=sheet.truncated,
        devices=tuple(smi_device.device(_renamed(row, FIELDS), at) for at, row in enumerate(cells) if of_devices),
        processes=tuple(smi_device.process(_renamed(row, PROCESS), None) for row in cells if of_processes),
        detail={"header_in_output": sheet.headed, "fields": sheet.fields, "rows": sheet.rows},
    )


def _renamed(row: dict[str, str], names: dict[str, str]) -> dict[str, str | None]:
    return {names[key]: value for key, value in row.items() if key in names}


def _common(cells: Sequence[dict[str, str]], field: str) -> str | None:
    return said(cells[0].get(field)) if cells else None


def split(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().strip('"').strip() for cell in line.split(","))


def _known(field: str) -> bool:
    name = _UNIT.sub("", field)
    return name in FIELDS or name in PROCESS or name in ALONE or name.partition(".")[0] in GROUPS


def _is_head(fields: tuple[str, ...]) -> bool:
    """Names, half of them known: each driver adds some, and the last may be cut.  One alone must be no plain word."""
    if len(fields) == 1:
        return _known(fields[0]) and bool(re.search(r"[.\[_]|^(?:name|uuid|index|pstate|serial)$", fields[0]))
    names = all(map(_NAME.match, fields[:-1])) and (_NAME.match(fields[-1]) or len(fields) > 2)
    return bool(names) and 2 * sum(map(_known, fields)) >= len(fields) and any(map(_precise, fields))


def _precise(field: str) -> bool:
    return _UNIT.sub("", field) in (*FIELDS, *PROCESS) or "." in field


def _with_head(lines: tuple[str, ...]) -> _Sheet | None:
    for at, line in enumerate(lines):
        if line[:1].strip() in ("", '"', *"abcdefghijklmnopqrstuvwxyz") and _is_head(fields := split(line)):
            sheet = _rows(lines[at + 1 :], fields, headed=True, patience=0)
            if len(fields) > 1 or sheet.rows or _UNIT.search(fields[0]):
                return sheet
    return None


def _with_command(lines: tuple[str, ...]) -> _Sheet | None:
    for at, line in enumerate(lines):
        found = _COMMAND.search(line) if "--query-" in line else None
        if found:
            sheet = _rows(lines[at + 1 :], split(found[1]), headed=False, patience=_PATIENCE)
            if sheet.rows:
                return sheet
    return None


def _rows(lines: Sequence[str], fields: tuple[str, ...], *, headed: bool, patience: int) -> _Sheet:
    """Rows of as many cells as there are fields, each cell of its field's kind; the first other line ends them."""
    names = [_UNIT.sub("", field) for field in fields]
    rows: list[tuple[str, ...]] = []
    for at, line in enumerate(lines[:ROWS_LIMIT]):
        if not line.strip():
            continue
        row = _joined(split(line), names)
        if row == fields:
            continue
        if len(row) == len(fields) and any(row) and all(_fits(n, cell) for n, cell in zip(names, row, strict=True)):
            rows.append(row)
        elif rows or patience == 0:
            cut = 1 < len(row) < len(fields) and not any(rest.strip() for rest in lines[at + 1 :])
            return _Sheet(fields, tuple(rows), headed, cut and _begins(names, row))
        else:
            patience -= 1
    return _Sheet(fields, tuple(rows), headed, headed and not rows and not _known(fields[-1]))


def _begins(names: list[str], row: tuple[str, ...]) -> bool:
    return all(_fits(name, cell) for name, cell in zip(names, row[:-1], strict=False))


def _joined(row: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    """A process name may hold commas: the cells too many belong to it."""
    free = next((at for at, name in enumerate(names) if name in ("process_name", "name")), None)
    surplus = len(row) - len(names)
    if surplus <= 0 or free is None or "pid" not in names:
        return row
    return (*row[:free], ", ".join(row[free : free + surplus + 1]), *row[free + surplus + 1 :])


def _fits(name: str, cell: str) -> bool:
    kind = FIELDS.get(name, name)
    if said(cell) is None:
        return True
    if kind in _NUMERIC or name.partition(".")[0] in ("memory", "power", "utilization", "clocks", "fan"):
        return bool(_VALUE.match(cell))
    return bool(_SHAPES[kind].match(cell)) if kind in _SHAPES else True


def _guessed(lines: tuple[str, ...]) -> _Sheet | None:
    rows = smi_csv_guess.rows([split(line) for line in lines if "," in line and len(line) < 4000])
    fields = smi_csv_guess.fields(rows) if rows else None
    return _Sheet(fields, rows, False, False) if fields else None

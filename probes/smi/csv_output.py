"""Parses CSV output of --query-gpu, --query-compute-apps, --query-accounted-apps: `index, name, memory.used [MiB]`.

The field names come from the header; otherwise from the pasted command line; otherwise from the values (csv_guess.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.model import Document
from probes.smi import csv_guess, device_cells, error_output
from probes.smi.csv_fields import ALONE, FIELDS, GROUPS, NO_DEVICE_A_ROW, PROCESS
from probes.smi.pasted_output import PastedOutput, cell_value

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
_PATIENCE = 3  # lines between the command and its output: sudo's prompt, a banner


@dataclass(frozen=True)
class _CsvSheet:
    fields: tuple[str, ...] | None
    rows: tuple[tuple[str, ...], ...]
    headed: bool
    truncated: bool


def parse_csv(paste: PastedOutput) -> Document | None:
    """Return the document of kind `csv`, or None if there are no such rows."""
    asked = "--query-" in paste.text
    sheet = _read_with_head(paste.lines) or (_read_with_command(paste.lines) if asked else _guess_sheet(paste.lines))
    if sheet is None or (not sheet.rows and error_output.find_error(paste)):
        return None
    names = [_UNIT.sub("", field) for field in sheet.fields or ()]
    cells = [dict(zip(names, row, strict=False)) for row in sheet.rows]
    of_processes = "pid" in names
    of_devices = not of_processes and not NO_DEVICE_A_ROW & set(names)
    return Document(
        paste.tool.name,
        "csv",
        tool_version=_first_value(cells, "ixml_version"),
        driver_version=_first_value(cells, "driver_version") or _first_value(cells, "kmd_version"),
        cuda_version=_first_value(cells, "cuda_version"),
        truncated=sheet.truncated,
        devices=tuple(
            device_cells.make_device(_rename_fields(row, FIELDS), at) for at, row in enumerate(cells) if of_devices
        ),
        processes=tuple(device_cells.make_process(_rename_fields(row, PROCESS), None) for row in cells if of_processes),
        detail={"header_in_output": sheet.headed, "fields": sheet.fields, "rows": sheet.rows},
    )


def _rename_fields(row: dict[str, str], names: dict[str, str]) -> dict[str, str | None]:
    return {names[key]: value for key, value in row.items() if key in names}


def _first_value(cells: Sequence[dict[str, str]], field: str) -> str | None:
    return cell_value(cells[0].get(field)) if cells else None


def split_cells(line: str) -> tuple[str, ...]:
    """Return the cells of a CSV line without blanks and quotes."""
    return tuple(cell.strip().strip('"').strip() for cell in line.split(","))


def _is_known_field(field: str) -> bool:
    name = _UNIT.sub("", field)
    return name in FIELDS or name in PROCESS or name in ALONE or name.partition(".")[0] in GROUPS


def _is_head(fields: tuple[str, ...]) -> bool:
    """Return whether these are field names: half of them known, because each driver adds some; the last may be
    truncated.

    A single field must not be a plain word.
    """
    if len(fields) == 1:
        return _is_known_field(fields[0]) and bool(re.search(r"[.\[_]|^(?:name|uuid|index|pstate|serial)$", fields[0]))
    names = all(map(_NAME.match, fields[:-1])) and (_NAME.match(fields[-1]) or len(fields) > 2)
    return bool(names) and 2 * sum(map(_is_known_field, fields)) >= len(fields) and any(map(_is_precise_field, fields))


def _is_precise_field(field: str) -> bool:
    return _UNIT.sub("", field) in (*FIELDS, *PROCESS) or "." in field


def _read_with_head(lines: tuple[str, ...]) -> _CsvSheet | None:
    for at, line in enumerate(lines):
        if line[:1].strip() in ("", '"', *"abcdefghijklmnopqrstuvwxyz") and _is_head(fields := split_cells(line)):
            sheet = _read_rows(lines[at + 1 :], fields, headed=True, patience=0)
            if len(fields) > 1 or sheet.rows or _UNIT.search(fields[0]):
                return sheet
    return None


def _read_with_command(lines: tuple[str, ...]) -> _CsvSheet | None:
    for at, line in enumerate(lines):
        found = _COMMAND.search(line) if "--query-" in line else None
        if found:
            sheet = _read_rows(lines[at + 1 :], split_cells(found[1]), headed=False, patience=_PATIENCE)
            if sheet.rows:
                return sheet
    return None


def _read_rows(lines: Sequence[str], fields: tuple[str, ...], *, headed: bool, patience: int) -> _CsvSheet:
    """Return the rows with one cell of the right kind per field; the first other line ends them."""
    names = [_UNIT.sub("", field) for field in fields]
    rows: list[tuple[str, ...]] = []
    for at, line in enumerate(lines[:ROWS_LIMIT]):
        if not line.strip():
            continue
        row = _join_name_cells(split_cells(line), names)
        if row == fields:
            continue
        if (
            len(row) == len(fields)
            and any(row)
            and all(_fits_field(n, cell) for n, cell in zip(names, row, strict=True))
        ):
            rows.append(row)
        elif rows or patience == 0:
            cut = 1 < len(row) < len(fields) and not any(rest.strip() for rest in lines[at + 1 :])
            return _CsvSheet(fields, tuple(rows), headed, cut and _begins_row(names, row))
        else:
            patience -= 1
    return _CsvSheet(fields, tuple(rows), headed, headed and not rows and not _is_known_field(fields[-1]))


def _begins_row(names: list[str], row: tuple[str, ...]) -> bool:
    return all(_fits_field(name, cell) for name, cell in zip(names, row[:-1], strict=False))


def _join_name_cells(row: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    """Join surplus cells into the process name, which can contain commas."""
    free = next((at for at, name in enumerate(names) if name in ("process_name", "name")), None)
    surplus = len(row) - len(names)
    if surplus <= 0 or free is None or "pid" not in names:
        return row
    return (*row[:free], ", ".join(row[free : free + surplus + 1]), *row[free + surplus + 1 :])


def _fits_field(name: str, cell: str) -> bool:
    kind = FIELDS.get(name, name)
    if cell_value(cell) is None:
        return True
    if kind in _NUMERIC or name.partition(".")[0] in ("memory", "power", "utilization", "clocks", "fan"):
        return bool(_VALUE.match(cell))
    return bool(_SHAPES[kind].match(cell)) if kind in _SHAPES else True


def _guess_sheet(lines: tuple[str, ...]) -> _CsvSheet | None:
    rows = csv_guess.select_rows([split_cells(line) for line in lines if "," in line and len(line) < 4000])
    fields = csv_guess.guess_fields(rows) if rows else None
    return _CsvSheet(fields, rows, False, False) if fields else None

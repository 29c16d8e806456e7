"""Parses CSV output of --query-gpu, --query-compute-apps, --query-accounted-apps: `index, name, memory.used [MiB]`.

The field names come from the header; otherwise from the pasted command line; otherwise from the values (csv_guess.py).
The samples of a loop are a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from envcheck.core.model import CellRemark, Document, Process
from probes.paste.paste_parser import describe_part
from probes.smi import csv_cells, csv_guess, csv_samples, device_cells, error_output
from probes.smi.csv_cells import CsvColumn
from probes.smi.csv_fields import ALONE, FIELDS, GROUPS, NO_DEVICE_A_ROW, PROCESS
from probes.smi.csv_samples import CsvRow
from probes.smi.pasted_output import PastedOutput, cell_value

_UNIT = re.compile(r"\s{0,8}\[[^\[\]]{0,12}\]$")
_NAME = re.compile(r"[A-Za-z][\w.]{0,90}(?:\s*\[[^\[\]]{0,12}\])?$")
_COMMAND = re.compile(r"--query-[a-z-]{2,24}[= ]\s?[\"']?([A-Za-z][\w.]*(?:\s?,\s?[\w.]+)*)")
SAMPLES_LIMIT = 4000  # last samples of a loop that are parts of the session
_HEAD_BEGINS = frozenset(("", '"', *"abcdefghijklmnopqrstuvwxyz"))
_PATIENCE = 3  # other lines between the command and its output (sudo's prompt, a banner), and between two rows
_ROW = "row"  # the field of a remark on a row with missing cells


@dataclass(frozen=True)
class _CsvSheet:
    """The rows below `fields`, which have their units; `unread` are lines that are rows with missing cells, `flawed`
    those with an unreadable one."""

    fields: tuple[str, ...]
    rows: tuple[CsvRow, ...]
    headed: bool = False
    truncated: bool = False
    unread: tuple[tuple[int, str], ...] = ()
    of_processes: bool = False
    columns: tuple[CsvColumn, ...] = ()
    flawed: frozenset[int] = frozenset()

    @property
    def places(self) -> dict[str, int]:
        """The column of each name, of several the last one."""
        return {column.name: at for at, column in enumerate(self.columns)}


def parse_csv(paste: PastedOutput) -> Document | None:
    """Return the document of kind `csv`, of a loop `session`, or None if there are no such rows."""
    asked = "--query-" in paste.text
    sheet = _read_with_head(paste.lines) or (_read_with_command(paste.lines) if asked else _guess_sheet(paste.lines))
    if sheet is None or (not sheet.rows and error_output.find_error(paste)):
        return None
    is_loop = not sheet.of_processes and not NO_DEVICE_A_ROW & sheet.places.keys()
    samples = csv_samples.split_samples(sheet.columns, sheet.rows) if is_loop else []
    if len(samples) < 2:
        return _make_document(paste, sheet)
    latest = csv_samples.choose_last_complete(samples) - len(samples)
    sheets = [replace(sheet, rows=tuple(rows), truncated=False, unread=()) for rows in samples]
    parts = [_make_document(paste, each) for each in sheets[-SAMPLES_LIMIT:]]
    return replace(
        parts[latest],
        kind="session",
        truncated=sheet.truncated,
        detail={"parts": [describe_part("", part) for part in parts]},
        remarks=(
            *(remark for each in sheets[:-SAMPLES_LIMIT] for remark in _remark_cells(paste, each)),
            *(remark for part in parts for remark in part.remarks),
            *_remark_rows(paste, sheet),
        ),
        parts=tuple(parts),
    )


def _make_document(paste: PastedOutput, sheet: _CsvSheet) -> Document:
    places = sheet.places
    has_pid = "pid" in places
    of_devices = not (sheet.of_processes or has_pid or NO_DEVICE_A_ROW & places.keys())
    columns = sheet.columns
    fields = [(at, columns[at].field, columns[at].values) for at in places.values() if columns[at].field]
    return Document(
        paste.tool.name,
        "csv",
        tool_version=_first_value(sheet, "ixml_version"),
        driver_version=_first_value(sheet, "driver_version") or _first_value(sheet, "kmd_version"),
        cuda_version=_first_value(sheet, "cuda_version"),
        truncated=sheet.truncated,
        devices=tuple(
            device_cells.complete_device({field: values[row.cells[at]] for at, field, values in fields}, position)
            for position, row in enumerate(sheet.rows)
            if of_devices
        ),
        processes=tuple(_make_process(sheet, row) for row in sheet.rows if has_pid),
        detail={
            "header_in_output": sheet.headed,
            "fields": sheet.fields,
            "rows": tuple(
                row.cells if all(row.cells) else tuple(cell or None for cell in row.cells) for row in sheet.rows
            ),
        },
        remarks=(*_remark_cells(paste, sheet), *_remark_rows(paste, sheet)),
    )


def _make_process(sheet: _CsvSheet, row: CsvRow) -> Process:
    cells = {
        PROCESS[name]: sheet.columns[at].texts[row.cells[at]] for name, at in sheet.places.items() if name in PROCESS
    }
    return device_cells.make_process(cells, None)


def _remark_cells(paste: PastedOutput, sheet: _CsvSheet) -> Iterator[CellRemark]:
    """Yield the cells without a readable value, with the field of Device or Process, else that of the query."""
    mapped = PROCESS if "pid" in sheet.places else FIELDS
    for row in sheet.rows:
        for column, cell in zip(sheet.columns, row.cells, strict=False) if row.at in sheet.flawed else ():
            if column.texts[cell] is None:
                field = mapped.get(column.name, FIELDS.get(column.name, column.name))
                yield CellRemark(paste.numbers[row.at], "memory_mib" if field == "memory" else field, cell)


def _remark_rows(paste: PastedOutput, sheet: _CsvSheet) -> Iterator[CellRemark]:
    return (CellRemark(paste.numbers[at], _ROW, text) for at, text in sheet.unread)


def _first_value(sheet: _CsvSheet, field: str) -> str | None:
    at = sheet.places.get(field)
    if at is None:
        return None
    texts = sheet.columns[at].texts
    return next((value for row in sheet.rows if (value := cell_value(texts[row.cells[at]]))), None)


def split_cells(line: str) -> tuple[str, ...]:
    """Return the cells of a CSV line without blanks and quotes."""
    if '"' not in line:
        return tuple(map(str.strip, line.split(",")))
    return tuple(cell.strip().strip('"').strip() for cell in line.split(","))


@lru_cache(maxsize=4096)
def _strip_unit(field: str) -> str:
    return _UNIT.sub("", field)


def _is_known_field(field: str) -> bool:
    name = _strip_unit(field)
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
    return _strip_unit(field) in (*FIELDS, *PROCESS) or "." in field


def _may_be_head(line: str) -> bool:
    return line[:1].strip() in _HEAD_BEGINS


def _read_with_head(lines: tuple[str, ...]) -> _CsvSheet | None:
    for at, line in enumerate(lines):
        if _may_be_head(line) and _is_head(fields := split_cells(line)):
            sheet = _read_rows(lines, at + 1, fields, headed=True)
            if len(fields) > 1 or sheet.rows or _UNIT.search(fields[0]):
                return sheet
    return None


def _read_with_command(lines: tuple[str, ...]) -> _CsvSheet | None:
    for at, line in enumerate(lines):
        found = _COMMAND.search(line) if "--query-" in line else None
        if found:
            sheet = _read_rows(lines, at + 1, split_cells(found[1]), headed=False)
            if sheet.rows:
                return sheet
    return None


def _read_rows(lines: Sequence[str], start: int, fields: tuple[str, ...], *, headed: bool) -> _CsvSheet:
    """Return the rows up to the next command or header, or to some lines that are not rows.

    Below another line, a row has two values; a single field has no other lines between its rows: any word might be one.
    """
    columns = _make_columns(fields)
    rows: list[CsvRow] = []
    unread: list[tuple[int, str]] = []
    block = others = 0
    cut = False
    for at in range(start, len(lines)):
        if not lines[at].strip():
            continue
        cells = _join_name_cells(split_cells(lines[at]), columns)
        is_patient = len(fields) > 1 if rows else not headed
        if cells == fields:
            block += 1
        elif csv_cells.is_row(columns, cells) and (not (rows and others) or csv_cells.count_values(columns, cells) > 1):
            rows.append(CsvRow(at, block, cells))
            others, cut = 0, False
        elif _ends_sheet(lines[at], cells) or others >= (_PATIENCE if is_patient else 0):
            break
        else:
            others += 1
            unread += [(at, lines[at].strip())] if any(map(csv_guess.is_device_value, cells)) else []
            cut = 1 < len(cells) < len(fields) and csv_cells.begins_row(columns, cells) and bool(lines[at - 1].strip())
    empty = headed and not rows and not _is_known_field(fields[-1])
    unread = [each for each in unread if rows and rows[0].at < each[0] < rows[-1].at]
    is_cut = bool(cut and rows) or empty
    flawed = _find_flawed(columns, rows)
    return _CsvSheet(fields, tuple(rows), headed, is_cut, tuple(unread), columns=columns, flawed=flawed)


def _ends_sheet(line: str, cells: tuple[str, ...]) -> bool:
    return "--query-" in line or (_may_be_head(line) and _is_head(cells))


def _make_columns(fields: Sequence[str]) -> tuple[CsvColumn, ...]:
    return tuple(CsvColumn(_strip_unit(field)) for field in fields)


def _find_flawed(columns: Sequence[CsvColumn], rows: Sequence[CsvRow]) -> frozenset[int]:
    """Return the lines of the rows with an unreadable cell; of most columns, no cell is one."""
    cells = ({*own} for own in zip(*(row.cells for row in rows), strict=True))
    flaws = [{cell for cell in own if each.texts[cell] is None} for each, own in zip(columns, cells, strict=False)]
    if not any(flaws):
        return frozenset()
    return frozenset(row.at for row in rows if any(map(set.__contains__, flaws, row.cells)))


def _join_name_cells(row: tuple[str, ...], columns: Sequence[CsvColumn]) -> tuple[str, ...]:
    """Join surplus cells into the process name, which can contain commas."""
    surplus = len(row) - len(columns)
    if surplus <= 0:
        return row
    names = [column.name for column in columns]
    free = next((at for at, name in enumerate(names) if name in ("process_name", "name")), None)
    if free is None or "pid" not in names:
        return row
    return (*row[:free], ", ".join(row[free : free + surplus + 1]), *row[free + surplus + 1 :])


def _guess_sheet(lines: tuple[str, ...]) -> _CsvSheet | None:
    rows = csv_guess.select_rows(
        [CsvRow(at, 0, split_cells(line)) for at, line in enumerate(lines) if "," in line and len(line) < 4000]
    )
    fields = csv_guess.guess_fields(rows) if rows else None
    if not fields:
        return None
    columns, are_processes = _make_columns(fields), csv_guess.are_processes(rows)
    flawed = _find_flawed(columns, rows)
    return _CsvSheet(fields, tuple(rows), of_processes=are_processes, columns=columns, flawed=flawed)

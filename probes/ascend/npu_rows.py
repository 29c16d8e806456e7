"""Rows of npu-smi's tables with their line numbers, also where a quote, a diff or a selection changed the first bar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envcheck.core.text_table import TableGap, TableRow, parse_rows
from probes.ascend import npu_columns

_PREFIX = re.compile(r"\s*[.+>-] ?(?=\|.*\|\s*$|\+[-=+]{3,}\s*$)")  # of a diff, a quote, a person's dots
_AHEAD = 100  # lines with bars among which a row is looked for


class PrintedRow(NamedTuple):
    """A row; `at` is the index of its first line, or -1.

    `printed` are its cells with their blanks, empty if a terminal wrapped it.
    """

    row: TableRow
    at: int
    printed: tuple[str, ...] = ()


def list_rows(lines: Sequence[str]) -> Iterator[PrintedRow | TableGap]:
    """Yield the rows and gaps among the lines."""
    lines = _repair_lines(lines)
    barred = [at for at, line in enumerate(lines) if "|" in line]
    first = 0
    for row in parse_rows(lines):
        if isinstance(row, TableGap):
            yield row
            continue
        if row.is_rule:
            yield PrintedRow(row, -1)
            continue
        if first < len(barred) and (printed := _split_cells(lines[barred[first]], row)):
            yield PrintedRow(row, barred[first], printed)
            first += 1
            continue
        text = _squeeze("|" + "|".join(row.cells) + "|" * row.closed)
        ahead = range(first, min(first + _AHEAD, len(barred)))
        found = next((at for at in ahead if text.startswith(_squeeze(lines[barred[at]]).lstrip(".…"))), None)
        if found is None:
            yield PrintedRow(row, -1)
            continue
        first = found + 1
        yield PrintedRow(row, barred[found], _split_cells(lines[barred[found]], row))


def _squeeze(line: str) -> str:
    return "".join(line.split())


def _split_cells(line: str, row: TableRow) -> tuple[str, ...]:
    """Return the cells with their blanks if the line has the whole row."""
    cells = tuple(line.split("|")[1:-1])
    return cells if tuple(map(str.strip, cells)) == row.cells else ()


def _repair_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines without what stands before their first bars, and with that bar if the rest is surely a row."""
    repaired: list[str] = []
    head: npu_columns.ColumnLayout | None = None  # of the rows that lost their first bar as their header did
    for line in lines:
        first = line.lstrip()[:1]
        if first in (".", "+", ">", "-") and (found := _PREFIX.match(line)):
            line = line[found.end() :]
        elif first not in ("|", "+", "") and line.count("|") > 2 and line.rstrip().endswith("|"):
            row = TableRow(tuple(cell.strip() for cell in line.rstrip()[:-1].split("|")), True)
            found_head = npu_columns.parse_layout(row.cells)
            head = found_head or head
            if found_head or npu_columns.is_certain(row) or (head and head.read_row(row) is not None):
                line = "|" + line
        repaired.append(line)
    return repaired

"""Splits the rows of a loop (`--query-gpu ... -l 1`) into its samples, each with one row per device.

timestamp, index, temperature.gpu
2025/01/01 10:00:00.000, 0, 33
2025/01/01 10:00:00.010, 1, 34
2025/01/01 10:00:01.002, 0, 35                  the device was in the sample: the next one begins
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from probes.smi.csv_cells import CellRating, CsvColumn

_KEYS = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")  # the first one with a value tells the device
_TELLING = re.compile(r"[1-9A-FH-LN-OQ-TV-WYZa-wyz]")  # none in an identifier whose digits were replaced
_TIME = re.compile(r"\d{4}/\d\d/(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d{1,6})?)")
_GAP_S = 0.5  # between two samples; the rows of one are some milliseconds apart


class CsvRow(NamedTuple):
    """The cells of a line; `at` is the index of the line, `block` counts the header lines above it."""

    at: int
    block: int
    cells: tuple[str, ...]


def split_samples(columns: Sequence[CsvColumn], rows: Sequence[CsvRow]) -> list[list[CsvRow]]:
    """Return the rows of each sample, in order."""
    names = [column.name for column in columns]
    places = {name: at for at, name in enumerate(names)}
    identifiers = [(places[key], columns[places[key]]) for key in _KEYS if key in places]
    process = places.get("pid")
    samples: list[list[CsvRow]] = []
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        keys = list(_list_keys(identifiers, row.cells, process))
        repeats = keys[0] in seen if keys else bool(samples) and _is_later(names, samples[-1][-1], row)
        if not samples or repeats or row.block != samples[-1][-1].block:
            samples.append([])
            seen = set()
        samples[-1].append(row)
        seen.update(keys)
    return samples


def choose_last_complete(samples: Sequence[list[CsvRow]]) -> int:
    """Return the position of the last sample, or of the one before if the text ends within the last."""
    last = len(samples) - 1
    return last - 1 if last > 0 and len(samples[last]) < len(samples[last - 1]) else last


def _list_keys(
    identifiers: Sequence[tuple[int, CsvColumn]], cells: Sequence[str], process: int | None
) -> Iterator[tuple[str, ...]]:
    """Yield what identifies the device of a row, or its process on that device."""
    for at, column in identifiers:
        cell = cells[at]
        if cell and column.ratings[cell] == CellRating.VALUE and (column.name == "index" or _TELLING.search(cell)):
            yield (column.name, cell) if process is None else (column.name, cell, cells[process])


def _is_later(names: Sequence[str], before: CsvRow, row: CsvRow) -> bool:
    """Return whether the row has a time that is too late for the sample of the row before."""
    if "timestamp" not in names:
        return False
    at = list(names).index("timestamp")
    times = [_TIME.fullmatch(each.cells[at]) for each in (before, row)]
    if not times[0] or not times[1]:
        return False
    first, second = (
        ((int(found[1]) * 24 + int(found[2])) * 60 + int(found[3])) * 60 + float(found[4]) for found in times if found
    )
    return not 0 <= second - first < _GAP_S

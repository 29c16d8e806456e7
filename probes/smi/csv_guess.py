"""Guesses the fields of CSV rows without header and command: only unmistakable values are named.

0, NVIDIA A10, GPU-2c7c..., 23028 MiB          index, name, uuid; the memory may be total, used or free: unknown
GPU-2c7c..., 4711, python, 123 MiB             a number and a program: the row of a process
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, filterfalse, pairwise, starmap

from probes.smi import cell_words
from probes.smi.csv_cells import CellLookup
from probes.smi.csv_fields import BRAND
from probes.smi.csv_samples import CsvRow

CELL_LIMIT = 120
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_UUID = re.compile(r"(?:GPU|MIG)-[-0-9A-Za-z/?]{4,80}$")
_EVIDENCE = re.compile(
    r"\d+(?:\.\d+)? (?:MiB|W|MHz|%)$|\[(?:N/A|Not Supported|Unknown Error|GPU is lost)[^\]]*\]$|0x[0-9A-Fa-f]{16}$"
)
# Field → pattern of its values.  The first column that matches in the rows is used.
_LOOKS = {
    "uuid": _UUID,
    "pci.bus_id": _BUS,
    "name": BRAND,
    "driver_version": re.compile(r"\d{3}\.\d{2,3}\.\d{2}$"),
    "pstate": re.compile(r"P\d{1,2}$"),
}
_PID = re.compile(r"\d{1,10}$")
_PROGRAM = re.compile(r"[~.]{0,3}/|\.\.\.|[A-Za-z]:\\|[a-z][\w.+-]*(?:\s|$)|.*\.exe$|\[Not Found\]$|[A-Z][A-Za-z]+$")
_ANSWERS = {"Enabled", "Disabled", "Default", "Active", "Yes", "No", "None", "Prohibited", "Supported", "WDDM", "TCC",
            "MCDM", "valid", "Completed", "Success"}  # fmt: skip


def select_rows(candidates: Sequence[CsvRow]) -> list[CsvRow]:
    """Return the rows of the most frequent width among those with a GPU value, and rows beside them with masks."""
    speaks = CellLookup(is_device_value).__getitem__
    speaking = [row for row in candidates if any(map(speaks, row.cells))]
    if not speaking:
        return []
    width = Counter(len(row.cells) for row in speaking).most_common(1)[0][0]
    found = {row.at for row in speaking}
    kept: list[CsvRow] = []
    for row in candidates:
        if len(row.cells) == width and all(len(cell) < CELL_LIMIT for cell in row.cells):
            is_beside = bool({row.at - 1, row.at + 1} & found) or (bool(kept) and kept[-1].at == row.at - 1)
            if row.at in found or (is_beside and any(map(_is_blank, row.cells))):
                kept.append(row)
    return kept


def are_processes(rows: Sequence[CsvRow]) -> bool:
    """Return whether these are rows of processes: somewhere a program follows a number, and no device is named."""
    pairs = {pair for row in rows for pair in pairwise(row.cells)}
    return any(starmap(_is_process, pairs)) and not any(BRAND.match(cell) for cell in {*chain.from_iterable(pairs)})


def _is_process(number: str, text: str) -> bool:
    is_named = _PID.match(number) and _PROGRAM.match(text)
    return bool(is_named) and text not in _ANSWERS and not cell_words.is_masked(text)


def is_device_value(cell: str) -> bool:
    """Return whether only a query of devices prints such a value: a UUID, a bus id, a number with a unit."""
    return bool(_UUID.match(cell) or _BUS.match(cell) or _EVIDENCE.match(cell))


def guess_fields(rows: Sequence[CsvRow]) -> tuple[str, ...] | None:
    """Return the column names, '' for unknown ones; None if none is known."""
    is_blank = CellLookup(_is_blank).__getitem__
    columns = [[*filterfalse(is_blank, cells)] for cells in zip(*(row.cells for row in rows), strict=True)]
    names = [""] * len(columns)
    for field, look in _LOOKS.items():
        at = next(
            (at for at, cells in enumerate(columns) if not names[at] and _looks_like(cells, look, len(rows))), None
        )
        if at is not None:
            names[at] = field
    if not names[0] and len(columns) > 1 and _is_counting(columns[0]):
        names[0] = "index"
    return tuple(names) if any(names) else None


def _looks_like(cells: Sequence[str], look: re.Pattern[str], count: int) -> bool:
    """Return whether the cells have this form; those of the rows left out, masks and empty values, are at most half."""
    return 2 * len(cells) >= count > 0 and all(map(look.match, {*cells}))


def _is_blank(cell: str) -> bool:
    return not cell or cell_words.is_absent(cell) or cell_words.is_failure(cell) or cell_words.is_hidden(cell)


def _is_counting(cells: Sequence[str]) -> bool:
    """Return whether the cells are 0, 1, 2 ... or a part of it, perhaps again and again: an index, not a percentage."""
    if not cells or not all(re.fullmatch(r"\d{1,3}", cell) for cell in {*cells}):
        return False
    runs: list[list[int]] = []
    for number in map(int, cells):
        if not runs or number <= runs[-1][-1]:
            runs.append([])
        runs[-1].append(number)
    longest = max(runs, key=len)
    is_cycle = len(runs) == 1 or (len(longest) > 1 and all(set(run) <= set(longest) for run in runs))
    return is_cycle and longest[-1] < 4 * len(longest) + 16

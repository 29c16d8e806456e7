"""Rates the cells of CSV rows by their fields, and tells rows from other lines."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from probes.smi import cell_words
from probes.smi.csv_fields import BRAND, FIELDS
from probes.smi.device_cells import find_reader

_VALUE = re.compile(r"-?\d+(?:\.\d+)?(?:\s?[A-Za-z%/]{1,6})?|0x[0-9A-Fa-f]+")
_SHAPES = {
    "uuid": re.compile(r"(?:GPU-|MIG-)?[0-9A-Za-z?][-0-9A-Za-z?/]{3,80}"),
    "bus_id": re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"),
    "perf_state": re.compile(r"P\d{1,2}"),
    "mig_mode": re.compile(r"(?:En|Dis)abled\*?"),
    "persistence": re.compile(r"(?:En|Dis)abled"),
    "name": re.compile(r"[^\s,].{0,119}"),
}
# No mask, failure or empty value has such a form.
_CERTAIN = re.compile(r"\d+(?:\.\d+)?(?: (?:MiB|W|MHz|%))?|[A-Z]{3}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMERIC = {name for name in [*FIELDS.values(), "pid"] if name not in _SHAPES}
_NUMERIC_GROUPS = ("memory", "power", "utilization", "clocks", "fan")


class CellRating(enum.Enum):
    """What a cell holds: a value of its field's form, a text of any form, no value, a mask or a failure, or none."""

    VALUE = enum.auto()
    TEXT = enum.auto()
    ABSENT = enum.auto()
    HIDDEN = enum.auto()
    ODD = enum.auto()


READABLE = (CellRating.VALUE, CellRating.TEXT, CellRating.ABSENT)


@lru_cache(maxsize=4096)
def rate_cell(name: str, cell: str) -> CellRating:
    """Return the rating of a cell; `name` is the query field without its unit, "" for an unknown one."""
    kind = FIELDS.get(name, name)
    if kind in _NUMERIC or name.partition(".")[0] in _NUMERIC_GROUPS:
        form: re.Pattern[str] | None = _VALUE
    else:
        form = _SHAPES.get(kind)
    if kind != "name" and form and _CERTAIN.fullmatch(cell) and form.fullmatch(cell):
        return CellRating.VALUE
    if cell_words.is_absent(cell) or not (cell or form):
        return CellRating.ABSENT
    if not cell or cell_words.is_failure(cell) or cell_words.is_masked(cell):
        return CellRating.HIDDEN
    if form is None:
        return CellRating.TEXT
    if kind == "name" and not cell_words.is_hidden(cell):
        return CellRating.VALUE if BRAND.match(cell) else CellRating.TEXT
    if form.fullmatch(cell) and kind != "name":
        return CellRating.VALUE
    return CellRating.HIDDEN if cell_words.is_hidden(cell) else CellRating.ODD


class CellLookup(dict[str, Any]):
    """The results of a function by its argument, which is one of many equal cells."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, cell: str) -> Any:
        found = self[cell] = self._find(cell)
        return found


class CsvColumn:
    """What the cells of a field hold: their ratings, their texts, None for an unreadable one, and the values of
    `field`, that of a device, "" if it has none."""

    def __init__(self, name: str) -> None:
        self.name, self.field = name, FIELDS.get(name, "")
        self.ratings = CellLookup(lambda cell: rate_cell(name, cell))
        self.texts = CellLookup(lambda cell: cell if self.ratings[cell] in READABLE else None)
        read = find_reader(self.field)
        self.values = CellLookup(lambda cell: read(self.texts[cell]))


def is_row(columns: Sequence[CsvColumn], cells: Sequence[str]) -> bool:
    """Return whether the cells are those of a row: each is readable or hidden, or at least half of the others are
    values."""
    if len(cells) != len(columns) or not any(cells):
        return False
    ratings = [column.ratings[cell] for column, cell in zip(columns, cells, strict=True)]
    odd = ratings.count(CellRating.ODD)
    return not odd or (len(columns) > 1 and ratings.count(CellRating.VALUE) >= odd)


def count_values(columns: Sequence[CsvColumn], cells: Sequence[str]) -> int:
    """Return how many cells have values of their fields' forms."""
    return sum(column.ratings[cell] == CellRating.VALUE for column, cell in zip(columns, cells, strict=False))


def begins_row(columns: Sequence[CsvColumn], cells: Sequence[str]) -> bool:
    """Return whether a row begins with these cells, of which the last one may be cut."""
    return all(column.ratings[cell] != CellRating.ODD for column, cell in zip(columns, cells[:-1], strict=False))

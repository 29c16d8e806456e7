"""Columns of npu-smi's tables: header word → pattern of the cells below it.

    | NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
    | Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |

A header cell has several words; the cell below it has their values in the same order, with any number of blanks.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from envcheck.core.model import Device, Process
from envcheck.core.text_table import TableRow
from envcheck.core.tool_text import cell_text, parse_number, parse_whole_number

Values = dict[str, str | None]

_WORD = re.compile(
    r"NPU\s+ID|(?:NPU|AI)\s*(?:Util|Core)\w*\s*\([^)]*\)|Process\s+id\s+in\s+container|Process\s+\w+(?:\s*\([^)]*\))?|"
    r"[^\s()]+(?:\s?\([^)]*\))?",
    re.IGNORECASE,
)
_NIL = r"NA|N/A|-{1,2}"
_NUMBER = rf"(?:-?\d{{1,12}}(?:\.\d{{1,9}})?[A-Za-z%]*|{_NIL})"
_PAIR = rf"(?:\d{{1,12}}|{_NIL})\s*/\s*(?:\d{{1,12}}|{_NIL})"
_BUS = rf"(?:[0-9A-Fa-f]{{4,8}}:)?[0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}}\.[0-9A-Fa-f]{{1,4}}|{_NIL}"
_INTEGER = r"\d{1,9}"

# The letters of a header word → its key, and the pattern of its values.  An empty key is ignored.
_COLUMNS: dict[str, tuple[str, str]] = {
    "npu": ("npu", _INTEGER),
    "npuid": ("npu", _INTEGER),
    "chip": ("chip", _INTEGER),
    "chipid": ("chip", _INTEGER),
    "name": ("name", r".*?"),
    "health": ("health", r"[A-Za-z][A-Za-z /_-]*"),
    "powerw": ("power", _NUMBER),
    "tempc": ("temp", _NUMBER),
    "hugepagesusagepage": ("hugepages", _PAIR),
    "device": ("logic_id", _INTEGER),
    "phyid": ("phy_id", _INTEGER),
    "busid": ("bus_id", _BUS),
    "aicore": ("util", _NUMBER),
    "npuutil": ("util", _NUMBER),
    "memoryusagemb": ("memory", _PAIR),
    "hbmusagemb": ("hbm", _PAIR),
    "processid": ("pid", _INTEGER),
    "processname": ("process", r".*?"),
    "processmemorymb": ("process_memory", _NUMBER),
    "processidincontainer": ("container_pid", _NUMBER),
}
# The words of a header by their parts, of which each may be cut or abbreviated: Mem-Usage(MB), Hugepages-Usa.
_PARTS = (
    *("chip id", "name", "health", "power w", "temp c", "hugepages usage page", "device", "phy id", "bus id"),
    *("aicore", "npu util", "memory usage mb", "hbm usage mb"),
)
_MARKS = ({"npu", "health"}, {"bus_id", "memory"}, {"npu", "pid"})  # the keys that identify a header row
_OLD_910 = ("Chip", "Bus-Id", "AICore(%) Memory-Usage(MB) HBM-Usage(MB)")
# For rows without a header: the layouts that the rows themselves distinguish.
_TOPS = (
    ("NPU Name", "Health", "Power(W) Temp(C) Hugepages-Usage(page)"),
    ("NPU Name", "Health", "Power(W) Temp(C)"),
    ("NPU ID", "Name", "Health", "Power(W) Temp(C) Hugepages-Usage(page)"),
)
_BOTTOMS = (
    _OLD_910,
    ("Chip Phy-ID", "Bus-Id", "AICore(%) Memory-Usage(MB) HBM-Usage(MB)"),
    ("Chip Device", "Bus-Id", "AICore(%) Memory-Usage(MB)"),
    ("", "", "Bus-Id", "NPU Util(%) Memory-Usage(MB) HBM-Usage(MB)"),
)


_FIELDS = {
    "power": "power_w",
    "temp": "temperature_c",
    "util": "utilization_percent",
    "memory": "memory_used_mib",
    "hbm": "memory_used_mib",
    "hugepages": "hugepages_used",
    "process": "name",
    "process_memory": "memory_mib",
}  # key → the field of a device or process, where the names differ


@dataclass(frozen=True)
class ColumnLayout:
    """A header row: one pattern for each cell below it, and the key and pattern of each of its words."""

    cells: tuple[re.Pattern[str], ...]
    keys: frozenset[str]
    words: tuple[tuple[tuple[str, str], ...], ...] = ()

    def read_row(self, row: TableRow) -> Values | None:
        """Return the row's values by key, or None if it is not a complete row of this table."""
        cells = row.cells if len(row.cells) <= len(self.cells) else self._rejoin_cells(row.cells)
        if not row.closed or len(cells) != len(self.cells):
            return None
        values: Values = {}
        for pattern, cell in zip(self.cells, cells, strict=False):
            if not (found := pattern.fullmatch(cell)):
                return None
            values |= found.groupdict()
        return values

    def read_damaged_row(self, row: TableRow) -> tuple[Values, list[tuple[str, str]]] | None:
        """Return the values of a row with cells that are masked or cannot be read, and those as field and text.

        None if the row does not have this table's cells, or more than one of them cannot be read.
        """
        if not row.closed or len(row.cells) != len(self.cells):
            return None
        values: Values = {}
        unread: list[tuple[str, str]] = []
        if sum(pattern.fullmatch(cell) is None for pattern, cell in zip(self.cells, row.cells, strict=True)) > 1:
            return None
        for pattern, words, cell in zip(self.cells, self.words, row.cells, strict=True):
            found = pattern.fullmatch(cell) or re.fullmatch(_damaged_pattern(words), cell)
            texts = found.groupdict() if found else {key: None for key, _ in words if key}
            for key, shape in words:
                text = texts.get(key)
                good = bool(text is not None and re.fullmatch(shape, text))
                if key:
                    values[key] = text if good else None
                    unread += [] if good else [(_FIELDS.get(key, key), cell if text is None else text)]
        return (values, unread) if any(value for value in values.values()) else None

    def read_cut_row(self, row: TableRow) -> Values:
        """Return the values in the first cells of a truncated row; it never becomes a device."""
        values: Values = {}
        for pattern, cell in zip(self.cells, row.cells, strict=False):
            if not (found := pattern.fullmatch(cell)):
                break
            values |= found.groupdict()
        return {key: value for key, value in values.items() if value}

    def _rejoin_cells(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """Join cells that were split inside a process name, which can contain bars."""
        if "pid" not in self.keys:
            return cells
        at = next((i for i, pattern in enumerate(self.cells) if "process" in pattern.groupindex), 0)
        end = len(cells) - (len(self.cells) - at - 1)
        return (*cells[:at], "|".join(cells[at:end]), *cells[end:])


def is_header(cells: tuple[str, ...]) -> bool:
    """Return whether the row may be a header: a cheap test before `parse_layout`."""
    line = " ".join(cells).lower()
    return "health" in line or "bus-id" in line or "process id" in line


@functools.lru_cache(maxsize=64)
def parse_layout(cells: tuple[str, ...]) -> ColumnLayout | None:
    """Return the layout of a header row, or None if it is not one."""
    if len(cells) > 12 or sum(map(len, cells)) > 400:
        return None
    words = [[_find_column(word) for word in _WORD.findall(cell)] for cell in cells]
    named = [key for cell in words for key, _ in cell if key]
    if len(named) != len(set(named)) or not any(mark <= set(named) for mark in _MARKS):
        return None
    patterns = tuple(re.compile(_cell_pattern(cell)) for cell in words)
    return ColumnLayout(patterns, frozenset(named), tuple(map(tuple, words)))


def _find_column(word: str) -> tuple[str, str]:
    parts = re.findall(r"[a-z]+", word.lower())
    letters = "".join(parts)
    if letters not in _COLUMNS:
        whole = [each for each in _PARTS if _is_abbreviation(parts, each.split())]
        letters = whole[0].replace(" ", "") if len(whole) == 1 else letters
    return _COLUMNS.get(letters, ("", _PAIR if "usage" in letters and "%" not in word else r"\S+"))


def _is_abbreviation(parts: list[str], whole: list[str]) -> bool:
    """Return whether each part begins the same part of the whole word, the first one with at least three letters."""
    if not parts or len(parts) > len(whole) or len(parts[0]) < 3:
        return False
    return all(full.startswith(part) for part, full in zip(parts, whole, strict=False))


def _cell_pattern(words: list[tuple[str, str]]) -> str:
    """Return a pattern for the values in the order of their header words; a name can be missing or contain blanks."""
    parts = [f"(?P<{key}>{shape})" if key else f"(?:{shape})" for key, shape in words]
    loose = [shape == r".*?" for _, shape in words]
    joints = [r"\s*" if loose[i] else r"\s+" for i in range(1, len(parts))]
    return "".join(part + joint for part, joint in zip(parts, [*joints, ""], strict=False))


@functools.lru_cache(maxsize=64)
def _damaged_pattern(words: tuple[tuple[str, str], ...]) -> str:
    """Return a pattern like that of `_cell_pattern` in which each value may be any word, and a pair any two."""
    loose = {_PAIR: r"\S+(?:\s*/\s*\S+)?", r".*?": r".*?"}
    return _cell_pattern([(key, loose.get(shape, r"\S+")) for key, shape in words])


def guess_top(row: TableRow) -> ColumnLayout | None:
    """Return the layout of a first row without a header."""
    return _find_fitting_layout(row, _TOPS)


def guess_bottom(row: TableRow) -> ColumnLayout | None:
    """Return the layout of a second row without a header."""
    return _find_fitting_layout(row, _BOTTOMS)


def _find_fitting_layout(row: TableRow, layouts: tuple[tuple[str, ...], ...]) -> ColumnLayout | None:
    if not row.closed:
        return None
    known = (parse_layout(cells) for cells in layouts)
    return next((one for one in known if one is not None and one.read_row(row) is not None), None)


def make_device(values: Values) -> Device:
    """Return one chip from its two rows. The MB columns are MiB; the memory is HBM if there is such a column."""
    memory, hbm, pages = (_parse_usage_pair(values.get(key)) for key in ("memory", "hbm", "hugepages"))
    main, ddr = (hbm, memory) if hbm[1] is not None else (memory, (None, None))
    return Device(
        npu=parse_whole_number(values.get("npu")),
        chip=parse_whole_number(values.get("chip")),
        phy_id=parse_whole_number(values.get("phy_id")),
        logic_id=parse_whole_number(values.get("logic_id")),
        name=cell_text(values.get("name")),
        bus_id=cell_text(values.get("bus_id")),
        health=cell_text(values.get("health")),
        temperature_c=parse_number(values.get("temp")),
        power_w=parse_number(values.get("power")),
        utilization_percent=parse_number(values.get("util")),
        memory_used_mib=main[0],
        memory_total_mib=main[1],
        ddr_used_mib=ddr[0],
        ddr_total_mib=ddr[1],
        hugepages_used=pages[0],
        hugepages_total=pages[1],
    )


def _parse_usage_pair(cell: str | None) -> tuple[int | None, int | None]:
    used, _, total = (cell or "").replace("N/A", "NA").partition("/")
    return parse_whole_number(used), parse_whole_number(total)


def make_process(values: Values) -> Process:
    """Return one row of the process table."""
    return Process(
        device=parse_whole_number(values.get("npu")),
        chip=parse_whole_number(values.get("chip")),
        pid=parse_whole_number(values.get("pid")),
        name=values.get("process") or None,
        memory_mib=parse_whole_number(values.get("process_memory")),
        container_pid=parse_whole_number(values.get("container_pid")),
    )

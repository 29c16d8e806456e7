"""Columns of npu-smi's tables: header word → pattern of the cells below it.

    | NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
    | Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |

A header cell has several words; the cell below it has their values in the same order, with any number of blanks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from envcheck.core.model import Device, Process, build_device
from envcheck.core.text_table import TableRow
from envcheck.core.tool_text import cell_text, parse_number, parse_whole_number
from probes.ascend.npu_alignment import ANY_TEXT, NIL, PAIR, Column, align_cell, is_mask, is_name, read_value

Values = dict[str, str | None]

_WORD = re.compile(
    r"NPU\s+ID|(?:NPU|AI)\s*(?:Util|Core)\w*\s*\([^)]*\)|Process\s+id\s+in\s+container|Process\s+\w+(?:\s*\([^)]*\))?|"
    r"[^\s()]+(?:\s?\([^)]*\))?",
    re.IGNORECASE,
)
_NUMBER = rf"(?:-?\d{{1,12}}(?:\.\d{{1,9}})?[A-Za-z%]*|{NIL})"
_BUS = rf"(?:[0-9A-Fa-f]{{4,8}}:)?[0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}}\.[0-9A-Fa-f]{{1,4}}|{NIL}"
_HEALTH = r"[A-Za-z][A-Za-z /_-]*"
_HEALTH_WORDS = ("ok", "warning", "alarm", "critical")
_INTEGER = r"\d{1,9}"

# The letters of a header word → its key, and the pattern of its values.  An empty key is ignored.
_COLUMNS: dict[str, tuple[str, str]] = {
    "npu": ("npu", _INTEGER),
    "npuid": ("npu", _INTEGER),
    "chip": ("chip", _INTEGER),
    "chipid": ("chip", _INTEGER),
    "name": ("name", ANY_TEXT),
    "health": ("health", _HEALTH),
    "powerw": ("power", _NUMBER),
    "tempc": ("temp", _NUMBER),
    "hugepagesusagepage": ("hugepages", PAIR),
    "device": ("logic_id", _INTEGER),
    "phyid": ("phy_id", _INTEGER),
    "busid": ("bus_id", _BUS),
    "aicore": ("util", _NUMBER),
    "npuutil": ("util", _NUMBER),
    "memoryusagemb": ("memory", PAIR),
    "hbmusagemb": ("hbm", PAIR),
    "processid": ("pid", _INTEGER),
    "processname": ("process", ANY_TEXT),
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


_NAMES = {"name", "process"}
_ZEROS = str.maketrans("123456789", "0" * 9)  # no pattern depends on which digits a value has
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
class DamagedRow:
    """The values of a row with cells that cannot be read, and those as field and text; `fits` counts the values."""

    values: Values
    unread: tuple[tuple[str, str], ...]
    fits: int


@dataclass(frozen=True, eq=False)  # compared by identity, which is fast
class ColumnLayout:
    """A header row: one pattern for each cell below it, and the key and pattern of each of its words.

    `heading` are its cells with their blanks, if the text shows them.
    """

    cells: tuple[re.Pattern[str], ...]
    keys: frozenset[str]
    words: tuple[tuple[Column, ...], ...] = ()
    heading: tuple[str, ...] = ()

    def read_row(self, row: TableRow) -> Values | None:
        """Return the row's values by key, or None if it is not a complete row of this table."""
        cells = row.cells if len(row.cells) <= len(self.cells) else self._rejoin_cells(row.cells)
        if not row.closed or len(cells) != len(self.cells):
            return None
        places = _find_values(self, tuple([cell.translate(_ZEROS) for cell in cells]))
        if places is None:
            return None
        return {key: cells[at][begin:end] if begin >= 0 else None for key, at, begin, end in places}

    def read_damaged_row(self, row: TableRow, printed: tuple[str, ...] = ()) -> DamagedRow | None:
        """Return the values of a row with cells that are masked, blank or cannot be read; `printed` are the cells with
        their blanks.

        None if it does not have this table's cells, is a heading, or nothing shows that it is a row of data.
        """
        if not row.closed or not any(row.cells):
            return None
        cells = row.cells if len(row.cells) <= len(self.cells) else self._rejoin_cells(row.cells)
        if len(cells) != len(self.cells) or self._has_heading_words(cells):
            return None
        aligned = tuple(map(len, printed)) == tuple(map(len, self.heading))
        values: Values = {}
        unread: list[tuple[str, str]] = []
        figures = 0  # values that no heading and no text has
        for at, (columns, cell) in enumerate(zip(self.words, cells, strict=True)):
            places = _find_places(self.heading[at]) if aligned and printed else []
            places = places if len(places) == len(columns) else []
            texts = align_cell(printed[at] if places else cell, columns, places)
            unassigned = cell if not any(texts) else ""
            for (key, shape), text in zip(columns, texts, strict=True):
                if not key:
                    continue
                values[key] = read_value(text, shape) if text else None
                figures += shape not in (ANY_TEXT, _HEALTH) and values[key] is not None
                if values[key] is None or values[key] != text:
                    unread.append((self._name_field(key, values[key]), text or unassigned))
        is_data = figures or any(map(is_mask, cells)) or re.search(r"\d", values.get("name") or "")
        if not is_data and (values.get("health") or "").lower() not in _HEALTH_WORDS:
            return None
        return DamagedRow(values, tuple(unread), sum(value is not None for value in values.values()))

    def _name_field(self, key: str, value: str | None) -> str:
        """Return the field of a device or process that cannot be read; of a pair whose first half can, the second."""
        name = "ddr_used_mib" if key == "memory" and "hbm" in self.keys else _FIELDS.get(key, key)
        return name.replace("_used", "_total") if value and not value.startswith("-") else name

    def _has_heading_words(self, cells: tuple[str, ...]) -> bool:
        """Return whether a cell has a word of a header row; a process can have any name."""
        plain = (
            cell
            for cell, columns in zip(cells, self.words, strict=True)
            if "process" not in (key for key, _ in columns)
        )
        return any(_find_column(word)[0] for cell in plain for word in _WORD.findall(cell))

    def read_cut_row(self, row: TableRow) -> Values:
        """Return the values in the first cells of a truncated row; it never becomes a device."""
        values: Values = {}
        for pattern, cell in zip(self.cells, row.cells, strict=False):
            if not (found := pattern.fullmatch(cell)):
                break
            values |= found.groupdict()
        return {key: value for key, value in values.items() if value}

    def read_cut_cell(self, cells: Sequence[str]) -> Values:
        """Return the numbers in the last one of a row's cells that are whole: those of a pair are whole together."""
        words = cells[-1].partition("/")[0].split()[:-1]
        names = self.cells[len(cells) - 1].groupindex if len(cells) <= len(self.cells) else ()
        return dict(zip(names, words, strict=False)) if all(map(str.isdecimal, words)) else {}

    def _rejoin_cells(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """Join cells that were split inside a process name, which can contain bars."""
        if "pid" not in self.keys:
            return cells
        at = next((i for i, pattern in enumerate(self.cells) if "process" in pattern.groupindex), 0)
        end = len(cells) - (len(self.cells) - at - 1)
        return (*cells[:at], "|".join(cells[at:end]), *cells[end:])


@functools.lru_cache(maxsize=1024)  # the rows of a watch log differ by their digits
def _find_values(layout: ColumnLayout, cells: tuple[str, ...]) -> tuple[tuple[str, int, int, int], ...] | None:
    """Return key, cell, begin and end of each value of a complete row, of which all digits are alike; the begin is -1
    for a value that is not there.  None for another row."""
    places: list[tuple[str, int, int, int]] = []
    values: Values = {}
    for at, (pattern, cell) in enumerate(zip(layout.cells, cells, strict=True)):
        if not (found := pattern.fullmatch(cell)):
            return None
        values |= found.groupdict()
        places += [(key, at, *found.span(key)) for key in pattern.groupindex]
    hidden = any(not is_name(values[key]) for key in _NAMES & values.keys()) or is_mask(values.get("health") or "")
    return None if hidden else tuple(places)


def is_header(cells: tuple[str, ...]) -> bool:
    """Return whether the row may be a header: a cheap test before `parse_layout`."""
    line = " ".join(cells).lower()
    return "health" in line or "bus-id" in line or "process id" in line


@functools.lru_cache(maxsize=64)
def parse_layout(cells: tuple[str, ...]) -> ColumnLayout | None:
    """Return the layout of a header row, or None if it is not one."""
    if len(cells) > 12 or sum(map(len, cells)) > 400:
        return None
    words = [[column for word in _WORD.findall(cell) for column in _find_columns(word)] for cell in cells]
    named = [key for cell in words for key, _ in cell if key]
    if len(named) != len(set(named)) or not any(mark <= set(named) for mark in _MARKS):
        return None
    patterns = tuple(re.compile(_cell_pattern(cell)) for cell in words)
    return ColumnLayout(patterns, frozenset(named), tuple(map(tuple, words)))


@functools.lru_cache(maxsize=64)
def place_heading(cells: tuple[str, ...], printed: tuple[str, ...]) -> ColumnLayout:
    """Return the layout of a header row with its cells as printed, with their blanks."""
    layout = parse_layout(cells)
    if layout is None:
        raise ValueError(f"not a header row: {cells}")
    return replace(layout, heading=printed)


def _find_columns(word: str) -> list[Column]:
    """Return the column of a header word, or the columns of two that were glued where a terminal wrapped the row."""
    for at in range(1, len(word)):
        if all(re.sub(r"[^a-z]", "", half.lower()) in _COLUMNS for half in (word[:at], word[at:])):
            return [_find_column(word[:at]), _find_column(word[at:])]
    return [_find_column(word)]


@functools.lru_cache(maxsize=1024)  # the cells of damaged rows are tested for words of a heading
def _find_column(word: str) -> Column:
    parts = re.findall(r"[a-z]+", word.lower())
    letters = "".join(parts)
    if letters not in _COLUMNS:
        whole = [each for each in _PARTS if _is_abbreviation(parts, each.split())]
        letters = whole[0].replace(" ", "") if len(whole) == 1 else letters
    return _COLUMNS.get(letters, ("", PAIR if "usage" in letters and "%" not in word else r"\S+"))


def _is_abbreviation(parts: list[str], whole: list[str]) -> bool:
    """Return whether each part begins the same part of the whole word, the first one with at least three letters."""
    if not parts or len(parts) > len(whole) or len(parts[0]) < 3:
        return False
    return all(full.startswith(part) for part, full in zip(parts, whole, strict=False))


def _cell_pattern(words: list[Column]) -> str:
    """Return a pattern for the values in the order of their header words; a name can be missing or contain blanks."""
    pattern = ""
    for key, shape in words:
        part = f"(?P<{key}>{shape})" if key else f"(?:{shape})"
        joint = r"\s+" if pattern else ""
        pattern += f"(?:{joint}{part})?" if pattern and shape == ANY_TEXT else joint + part
    return pattern


def _find_places(heading: str) -> list[int]:
    """Return the offsets of the words of a header cell."""
    return [found.start() for found in _WORD.finditer(heading)]


def guess_top(row: TableRow, cut: Set[str] | None = None) -> ColumnLayout | None:
    """Return the layout of a first row without a header; `cut` are the keys of a header that has not all columns."""
    return _find_fitting_layout(row, _TOPS, cut)


def guess_bottom(row: TableRow, cut: Set[str] | None = None) -> ColumnLayout | None:
    """Return the layout of a second row like `guess_top`."""
    return _find_fitting_layout(row, _BOTTOMS, cut)


def is_certain(row: TableRow) -> bool:
    """Return whether the row has the form of a chip's row, whatever stands around it."""
    return guess_top(row) is not None or guess_bottom(row) is not None


def _find_fitting_layout(
    row: TableRow, layouts: tuple[tuple[str, ...], ...], cut: Set[str] | None
) -> ColumnLayout | None:
    known = [one for one in map(parse_layout, layouts) if one]
    if not row.closed or not any(cut is None or cut < one.keys for one in known):
        return None
    found = next((one for one in known if one.read_row(row) is not None), None)
    return found if found and (cut is None or cut < found.keys) else None


def guess_damaged_row(row: TableRow, is_first: bool) -> DamagedRow | None:
    """Return the values of a row without a header, of which a single cell cannot be read, by its form."""
    layouts = (parse_layout(cells) for cells in (_TOPS if is_first else _BOTTOMS))
    found = [damaged for one in layouts if one and (damaged := one.read_damaged_row(row))]
    best = max(found, key=lambda damaged: damaged.fits - len(damaged.unread), default=None)
    is_clear = best is not None and best.fits > 3 * len(best.unread) and (not is_first or "hugepages" in best.values)
    return best if is_clear else None


def make_device(values: Values) -> Device:
    """Return one chip from its two rows. The MB columns are MiB; the memory is HBM if there is such a column."""
    memory, hbm, pages = (_parse_usage_pair(values.get(key)) for key in ("memory", "hbm", "hugepages"))
    main, ddr = (hbm, memory) if "hbm" in values else (memory, (None, None))
    return build_device(
        {
            "npu": parse_whole_number(values.get("npu")),
            "chip": parse_whole_number(values.get("chip")),
            "phy_id": parse_whole_number(values.get("phy_id")),
            "logic_id": parse_whole_number(values.get("logic_id")),
            "name": cell_text(values.get("name")),
            "bus_id": cell_text(values.get("bus_id")),
            "health": cell_text(values.get("health")),
            "temperature_c": parse_number(values.get("temp")),
            "power_w": parse_number(values.get("power")),
            "utilization_percent": parse_number(values.get("util")),
            "memory_used_mib": main[0],
            "memory_total_mib": main[1],
            "ddr_used_mib": ddr[0],
            "ddr_total_mib": ddr[1],
            "hugepages_used": pages[0],
            "hugepages_total": pages[1],
        }
    )


@functools.lru_cache(maxsize=1024)
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

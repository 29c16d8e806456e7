"""Columns of npu-smi's boxed tables: header words → what a cell below them must look like.

    | NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
    | Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |

A header cell holds several words; the cell below it holds their values in the same order, however many blanks are left.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from envcheck.core.model import Device, Process
from envcheck.core.text import number, said, whole
from envcheck.core.text_table import Row

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

# The letters of a header word → its key, and the shape of its values.  "" where a word is passed over.
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
_MARKS = ({"npu", "health"}, {"bus_id", "memory"}, {"npu", "pid"})  # what makes a row a header
_OLD_910 = ("Chip", "Bus-Id", "AICore(%) Memory-Usage(MB) HBM-Usage(MB)")
# For rows whose header was cut off: the layouts that their own shape tells apart.
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


@dataclass(frozen=True)
class Layout:
    """A header row: one pattern for each cell below it."""

    cells: tuple[re.Pattern[str], ...]
    keys: frozenset[str]

    def read(self, row: Row) -> Values | None:
        """The row's values by key, or None where it is not a whole row of this table."""
        cells = row.cells if len(row.cells) <= len(self.cells) else self._rejoined(row.cells)
        if not row.closed or len(cells) != len(self.cells):
            return None
        values: Values = {}
        for pattern, cell in zip(self.cells, cells, strict=False):
            if not (found := pattern.fullmatch(cell)):
                return None
            values |= found.groupdict()
        return values

    def begin(self, row: Row) -> Values:
        """What the first cells of a row that was cut still tell; never a device."""
        values: Values = {}
        for pattern, cell in zip(self.cells, row.cells, strict=False):
            if not (found := pattern.fullmatch(cell)):
                break
            values |= found.groupdict()
        return {key: value for key, value in values.items() if value}

    def _rejoined(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """A process name may hold bars of its own."""
        if "pid" not in self.keys:
            return cells
        at = next((i for i, pattern in enumerate(self.cells) if "process" in pattern.groupindex), 0)
        end = len(cells) - (len(self.cells) - at - 1)
        return (*cells[:at], "|".join(cells[at:end]), *cells[end:])


def is_header(cells: tuple[str, ...]) -> bool:
    """A cheap look, before the dear one."""
    line = " ".join(cells).lower()
    return "health" in line or "bus-id" in line or "process id" in line


@functools.lru_cache(maxsize=64)
def layout(cells: tuple[str, ...]) -> Layout | None:
    """The layout that these header cells announce, or None where they are no header."""
    if len(cells) > 12 or sum(map(len, cells)) > 400:
        return None
    words = [[_column(word) for word in _WORD.findall(cell)] for cell in cells]
    named = [key for cell in words for key, _ in cell if key]
    if len(named) != len(set(named)) or not any(mark <= set(named) for mark in _MARKS):
        return None
    return Layout(tuple(re.compile(_pattern(cell)) for cell in words), frozenset(named))


def _column(word: str) -> tuple[str, str]:
    letters = re.sub(r"[^a-z]", "", word.lower())
    return _COLUMNS.get(letters, ("", _PAIR if "usage" in letters and "%" not in word else r"\S+"))


def _pattern(words: list[tuple[str, str]]) -> str:
    """Values in the order of their header words; a name may be missing, and may hold blanks."""
    parts = [f"(?P<{key}>{shape})" if key else f"(?:{shape})" for key, shape in words]
    loose = [shape == r".*?" for _, shape in words]
    joints = [r"\s*" if loose[i] else r"\s+" for i in range(1, len(parts))]
    return "".join(part + joint for part, joint in zip(parts, [*joints, ""], strict=False))


def guess_top(row: Row) -> Layout | None:
    """The layout of a first row whose header was cut off."""
    return _fitting(row, _TOPS)


def guess_bottom(row: Row) -> Layout | None:
    """The layout of a second row whose header was cut off."""
    return _fitting(row, _BOTTOMS)


def _fitting(row: Row, layouts: tuple[tuple[str, ...], ...]) -> Layout | None:
    if not row.closed:
        return None
    known = (layout(cells) for cells in layouts)
    return next((one for one in known if one is not None and one.read(row) is not None), None)


def device(values: Values) -> Device:
    """One chip from its two rows.  The MB columns count MiB; training uses HBM where there is such a column."""
    memory, hbm, pages = (_pair(values.get(key)) for key in ("memory", "hbm", "hugepages"))
    main, ddr = (hbm, memory) if hbm[1] is not None else (memory, (None, None))
    return Device(
        npu=whole(values.get("npu")),
        chip=whole(values.get("chip")),
        phy_id=whole(values.get("phy_id")),
        logic_id=whole(values.get("logic_id")),
        name=said(values.get("name")),
        bus_id=said(values.get("bus_id")),
        health=said(values.get("health")),
        temperature_c=number(values.get("temp")),
        power_w=number(values.get("power")),
        utilization_percent=number(values.get("util")),
        memory_used_mib=main[0],
        memory_total_mib=main[1],
        ddr_used_mib=ddr[0],
        ddr_total_mib=ddr[1],
        hugepages_used=pages[0],
        hugepages_total=pages[1],
    )


def _pair(cell: str | None) -> tuple[int | None, int | None]:
    used, _, total = (cell or "").replace("N/A", "NA").partition("/")
    return whole(used), whole(total)


def process(values: Values) -> Process:
    """One row of the process table."""
    return Process(
        device=whole(values.get("npu")),
        chip=whole(values.get("chip")),
        pid=whole(values.get("pid")),
        name=values.get("process") or None,
        memory_mib=whole(values.get("process_memory")),
        container_pid=whole(values.get("container_pid")),
    )

"""Guesses the fields of CSV rows without header and command: only unmistakable values are named.

0, NVIDIA A10, GPU-2c7c..., 23028 MiB          index, name, uuid; the memory may be total, used or free: unknown
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

Row = tuple[str, ...]

BRAND = re.compile(
    r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|RTX|GTX|Iluvatar|Orin|A100|A800|H100|H800|H20|V100|BI-V)\b",
    re.IGNORECASE,
)
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_UUID = re.compile(r"(?:GPU|MIG)-[-0-9A-Za-z/?]{4,80}$")
_EVIDENCE = re.compile(
    r"\d+(?:\.\d+)? (?:MiB|W|MHz|%)$|\[(?:N/A|Not Supported|Unknown Error|GPU is lost)[^\]]*\]$|0x[0-9A-Fa-f]{16}$"
)
# Field → pattern of its values.  The first column that matches in all rows is used.
_LOOKS = {
    "uuid": _UUID,
    "bus_id": _BUS,
    "name": BRAND,
    "driver_version": re.compile(r"\d{3}\.\d{2,3}\.\d{2}$"),
    "pstate": re.compile(r"P\d{1,2}$"),
}
_FIELDS = {
    "uuid": "uuid",
    "bus_id": "pci.bus_id",
    "name": "name",
    "driver_version": "driver_version",
    "pstate": "pstate",
}


def select_rows(candidates: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows of the most frequent width among those with a GPU value; none if there is no such row."""
    speaking = [row for row in candidates if any(map(_is_device_value, row))]
    if not speaking:
        return ()
    width = Counter(map(len, speaking)).most_common(1)[0][0]
    return tuple(row for row in speaking if len(row) == width and all(len(cell) < 120 for cell in row))


def _is_device_value(cell: str) -> bool:
    return bool(_UUID.match(cell) or _BUS.match(cell) or _EVIDENCE.match(cell))


def guess_fields(found: Sequence[Row]) -> Row | None:
    """Return the column names, '' for unknown ones; None if none is known."""
    columns = list(zip(*found, strict=True))
    names = [""] * len(columns)
    for field, look in _LOOKS.items():
        at = next((at for at, cells in enumerate(columns) if not names[at] and all(map(look.match, cells))), None)
        if at is not None:
            names[at] = _FIELDS[field]
    if not names[0] and _is_counting(columns[0]) and len(columns) > 1:
        names[0] = "index"
    return tuple(names) if any(names) else None


def _is_counting(cells: Sequence[str]) -> bool:
    """Return whether the cells are 0, 1, 2 ... or a part of it: an index, not a percentage."""
    if not all(re.fullmatch(r"\d{1,3}", cell) for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == sorted(set(numbers)) and numbers[-1] < 4 * len(numbers) + 16

"""Parses rows of the process table and of the MIG table, by the words in their headers.

|  GPU       PID  Process name                                     Usage      |      340: no type
|  GPU       PID   Type   Process name                             Usage      |      367 to 440
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |      since 450
|  GPU        PID      Process name                                Usage(MiB) |      ixsmi: the unit is in the header
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_MEMORY = re.compile(r"(?:\d{1,12}\s{0,8}[MKG]i?B|\[?N/A\]?|\d{1,12}\.\.\.|ERR!|Not Supported)$")
_BARE = re.compile(r"(?:\d{1,12}(?:\s{0,8}[MKG]i?B)?|\[?N/A\]?)$")
_ID = r"(?:N/A|\d+)"


@lru_cache(maxsize=64)
def _row_pattern(head: str) -> re.Pattern[str]:
    words = set(head.split())
    instances = rf"(?P<gi>{_ID})\s+(?P<ci>{_ID})\s+" if "GI" in words or not words else ""
    if not words:  # a part of a table without a header
        instances = f"(?:{instances})?"
    kind = r"(?:(?P<type>[CGM](?:\+[CGM]){0,2})\s+)?" if "Type" in words or not words else ""
    return re.compile(rf"\s*(?P<gpu>\d+)\s+{instances}(?P<pid>\d+)\s+{kind}")


def parse_process_row(head: str, cell: str) -> dict[str, str | None] | None:
    """Return gpu, pid, name and memory, and type, gi and ci if the format has them; None for text instead of a row."""
    cell = cell.rstrip()
    memory = (_BARE if "(MiB)" in head else _MEMORY).search(cell)
    found = _row_pattern(" ".join(head.split())).match(cell[: memory.start()]) if memory else None
    if not found or not memory:
        return None
    overflowed = memory[0].endswith("...")  # the number is truncated
    name = cell[found.end() : memory.start()].strip()
    return {**found.groupdict(), "name": name, "memory": None if overflowed else memory[0]}


def parse_mig_row(parts: list[str]) -> list[dict[str, Any]]:
    """Return the MIG instance of a first row (`0 2 0 0 | 11MiB / 40448MiB | 60 0 | ...`); [] for the rows below it."""
    ids = parts[0].split() if parts else []
    if len(ids) != 4 or len(parts) < 2 or not all(word.isdecimal() and len(word) < 10 for word in ids):
        return []
    gpu, gi, ci, place = map(int, ids)
    memory = re.match(r"\s*(\d{1,9})\s?MiB\s*/\s*(\d{1,9})\s?MiB", parts[1])
    used, total = (int(memory[1]), int(memory[2])) if memory else (None, None)
    names = {"gpu": gpu, "gi": gi, "ci": ci, "mig_dev": place}
    return [{**names, "memory_used_mib": used, "memory_total_mib": total}]

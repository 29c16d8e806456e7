"""Parses rows of the process table and of the MIG table, by the words in their headers.

|  GPU       PID  Process name                                     Usage      |      340: no type
|  GPU       PID   Type   Process name                             Usage      |      367 to 440
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |      since 450
|  GPU        PID      Process name                                Usage(MiB) |      ixsmi: the unit is in the header
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from probes.smi import cell_words
from probes.smi.word_alignment import Column, align_words

_MEMORY = re.compile(r"(?:\d{1,12}\s{0,8}[MKG]i?B|\[?N/A\]?|\d{1,12}\.\.\.|ERR!|Not Supported)$")
_BARE = re.compile(r"(?:\d{1,12}(?:\s{0,8}[MKG]i?B)?|\[?N/A\]?)$")
_PAIR = re.compile(r"\d\s?[MKG]i?B /$")  # of a used and a total amount
_ID = r"(?:N/A|\d+)"
_KINDS = r"[CGM](?:\+[CGM]){0,2}"
_FIELDS = {"gpu": "device", "pid": "pid", "name": "name", "memory": "memory_mib"}  # of Process


@lru_cache(maxsize=64)
def _row_pattern(head: str) -> re.Pattern[str]:
    words = set(head.split())
    instances = rf"(?P<gi>{_ID})\s+(?P<ci>{_ID})\s+" if "GI" in words or not words else ""
    if not words:  # a part of a table without a header
        instances = f"(?:{instances})?"
    kind = rf"(?:(?P<type>{_KINDS})\s+)?" if "Type" in words or not words else ""
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
    if _PAIR.search(name):
        return None  # a device's row
    return {**found.groupdict(), "name": name, "memory": None if overflowed else memory[0]}


@lru_cache(maxsize=64)
def _list_columns(head: str) -> tuple[Column, ...]:
    words = set(head.split())
    forms = {
        "gpu": r"\d+",
        "gi": _ID,
        "ci": _ID,
        "pid": r"\d+",
        "type": _KINDS,
        "name": "",
        "memory": r"\d+(?:MiB)?" if "(MiB)" in head else r"\d+\s?[MKG]i?B",
    }
    absent = {"gi", "ci"} if "GI" not in words else set()
    absent |= {"type"} if "Type" not in words else set()
    return tuple(Column(name, re.compile(forms[name]), 0.0, name == "name") for name in forms if name not in absent)


def parse_damaged_row(head: str, cell: str) -> dict[str, str | None] | None:
    """Return a row like `parse_process_row`, with unreadable cells as printed; None for text instead of a row."""
    row = _align_row(head, cell)
    return dict(row) if row else None


@lru_cache(maxsize=256)
def _align_row(head: str, cell: str) -> Mapping[str, str | None] | None:
    columns = _list_columns(" ".join(head.split()))
    texts = align_words(cell, columns)
    valid = sum(bool(not each.has_words and each.form.fullmatch(texts.get(each.name, ""))) for each in columns)
    return {each.name: texts.get(each.name) for each in columns} if valid > 1 and texts.get("name") else None


def list_unreadable(head: str, row: dict[str, str | None]) -> list[tuple[str, str]]:
    """Return field of Process and text of the cells of a row that are unreadable; an overflowed memory is not."""
    forms = {each.name: each.form for each in _list_columns(" ".join(head.split()))}
    cells = {name: row[name] or "" for name in _FIELDS if name in row and not (name == "memory" and row[name] is None)}
    return [
        (_FIELDS[name], text)
        for name, text in cells.items()
        if not cell_words.is_absent(text)
        and (not text or cell_words.is_masked(text) if name == "name" else not forms[name].fullmatch(text))
    ]


def parse_mig_row(parts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the MIG instance of a first row (`0 2 0 0 | 11MiB / 40448MiB | 60 0 | ...`); [] for the rows below it."""
    ids = parts[0].split() if parts else []
    if len(ids) != 4 or len(parts) < 2 or not all(word.isdecimal() and len(word) < 10 for word in ids):
        return []
    gpu, gi, ci, place = map(int, ids)
    memory = re.match(r"\s*(\d{1,9})\s?MiB\s*/\s*(\d{1,9})\s?MiB", parts[1])
    used, total = (int(memory[1]), int(memory[2])) if memory else (None, None)
    names = {"gpu": gpu, "gi": gi, "ci": ci, "mig_dev": place}
    return [{**names, "memory_used_mib": used, "memory_total_mib": total}]

"""Converts the printed cells of a device to a Device; the same for all output formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from envcheck.core.model import Device, Process, build_device
from envcheck.core.tool_text import parse_number, parse_whole_number
from probes.smi import cell_words
from probes.smi.pasted_output import cell_value

_SWITCH = {"on": True, "enabled": True, "off": False, "disabled": False}


def _parse_switch(cell: str | None) -> bool | None:
    return _SWITCH.get((cell or "").strip().lower())


@lru_cache(maxsize=4096)  # as the numbers
def _parse_text(cell: str | None) -> str | None:
    value = cell_value(cell)
    return None if value is None or cell_words.is_hidden(value) else value


_READ_TYPE: Mapping[str, Callable[[str | None], Any]] = {
    "float | None": parse_number,
    "int | None": parse_whole_number,
    "bool | None": _parse_switch,
}
_READ: Mapping[str, Callable[[str | None], Any]] = {
    field.name: _READ_TYPE.get(str(field.type), _parse_text) for field in fields(Device)
}


def make_device(cells: Mapping[str, str | None], position: int) -> Device:
    """Return a device; `cells` are by field of Device, others are ignored.  Without a printed index, `position` is
    used."""
    return complete_device(read_values(cells), position)


def make_listed_devices(rows: Sequence[Mapping[str, str | None] | None]) -> list[Device | None]:
    """Return the device of each row of a list, None for a row that is none.

    A row with an unreadable cell is none where another row has its index, or its UUID if it has no index.  A device
    without an index has its position, or the next number that no other has.
    """
    kept = _drop_repeats(rows)
    taken = {_READ["index"](row.get("index")) for row in kept if row}
    devices: list[Device | None] = []
    position = free = 0
    for row in kept:
        if row is None:
            devices.append(None)
            continue
        free = max(free, position)
        while free in taken:
            free += 1
        device = make_device(row, free)
        taken.add(device.index)
        devices.append(device)
        position += 1
    return devices


def _drop_repeats(rows: Sequence[Mapping[str, str | None] | None]) -> list[Mapping[str, str | None] | None]:
    """Return the rows, with None for those with an unreadable cell that are about another row's device."""
    damaged = [row is None or None in read_values(row).values() for row in rows]
    seen = {
        key for row, is_damaged in zip(rows, damaged, strict=True) if row and not is_damaged for key in _list_keys(row)
    }
    kept: list[Mapping[str, str | None] | None] = []
    for row, is_damaged in zip(rows, damaged, strict=True):
        keys = _list_keys(row) if row else []
        kept.append(None if is_damaged and seen.intersection(keys[:1]) else row)
        seen.update(keys)
    return kept


def _list_keys(row: Mapping[str, str | None]) -> list[int | str]:
    """Return what distinguishes the row's device, as far as it is readable: the index, then a whole UUID."""
    index, uuid = _READ["index"](row.get("index")), _READ["uuid"](row.get("uuid"))
    keys = (index, None if uuid and cell_words.has_mask_sign(uuid) else uuid)
    return [key for key in keys if key is not None]


def read_values(cells: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of the cells that are fields of Device."""
    return {name: read(cell) for name, cell in cells.items() if (read := _READ.get(name))}


def complete_device(values: Mapping[str, Any], position: int) -> Device:
    """Return the device with these values; without an index, with its position."""
    return build_device(values if values.get("index") is not None else {**values, "index": position})


def find_reader(name: str) -> Callable[[str | None], Any]:
    """Return the function that reads the cells of this field of Device; of another field, their texts."""
    return _READ.get(name, _parse_text)


def is_field(name: str) -> bool:
    """Return whether Device has such a field."""
    return name in _READ


def is_unreadable(name: str, cell: str) -> bool:
    """Return whether the cell gives no value for this field of Device, although the tool prints one there."""
    if name not in _READ or cell.strip().lower() in _SWITCH:  # "Off" is no count of ECC errors, but an answer
        return False
    return _READ[name](cell) is None and not cell_words.is_absent(cell)


def list_unreadable(cells: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield field and text of the cells that are unreadable; None is a cell that is not there."""
    return ((name, cell) for name, cell in cells.items() if cell is not None and is_unreadable(name, cell))


def make_process(cells: Mapping[str, str | None], index: int | None) -> Process:
    """Return a process; `cells` has pid, name and memory as printed."""
    return Process(
        device=index,
        pid=parse_whole_number(cells.get("pid")),
        name=None if cell_words.is_masked(cells.get("name") or "") else cell_value(cells.get("name")),
        memory_mib=parse_whole_number(cells.get("memory")),
    )


def sum_counters(counts: Sequence[str | None]) -> str | None:
    """Return the sum of counters; None if there are none, or one is not a number."""
    numbers = [parse_whole_number(count) for count in counts]
    return str(sum(n or 0 for n in numbers)) if numbers and None not in numbers else None

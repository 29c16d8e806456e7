"""From the cells of one device, as printed, to a Device; the same for every kind of output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from envcheck.core.model import Device, Process
from envcheck.core.text import number, whole
from probes.smi.smi_paste import said

_SWITCH = {"on": True, "enabled": True, "off": False, "disabled": False}


def _switch(cell: str | None) -> bool | None:
    return _SWITCH.get((cell or "").strip().lower())


_NUMBER, _WHOLE = ("float | None", number), ("int | None", whole)
_READ: Mapping[str, Callable[[str | None], Any]] = {
    field.name: dict([_NUMBER, _WHOLE, ("bool | None", _switch)]).get(str(field.type), said) for field in fields(Device)
}


def device(cells: Mapping[str, str | None], position: int) -> Device:
    """`cells` by the names of Device's fields; others are left aside.  Without a printed index the position counts."""
    values = {name: _READ[name](cell) for name, cell in cells.items() if name in _READ}
    if values.get("index") is None:
        values["index"] = position
    return Device(**values)


def process(cells: Mapping[str, str | None], index: int | None) -> Process:
    """`cells` has pid, name and memory as printed."""
    return Process(
        device=index, pid=whole(cells.get("pid")), name=said(cells.get("name")), memory_mib=whole(cells.get("memory"))
    )


def total(counts: Sequence[str | None]) -> str | None:
    """The sum of counters; None where there is none, or where one is not a number."""
    numbers = [whole(count) for count in counts]
    return str(sum(n or 0 for n in numbers)) if numbers and None not in numbers else None

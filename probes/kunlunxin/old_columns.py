"""The columns of xpu_smi's tables up to driver 4.x: by their header, or by the form of a cell."""

from __future__ import annotations

import re
from collections.abc import Sequence

_COLUMNS = {
    "devid": "index",
    "pci addr": "bus_id",
    "model": "name",
    "inode": "node",
    "state": "health",
    "userate": "utilization_percent",
    "l3": "l3",
    "memory": "memory",
    "power": "power_w",
    "temp": "temperature_c",
    "freq": "clock_sm_mhz",
}
_ALIASES = {
    "dev id": "devid",
    "pci address": "pci addr",
    "pciaddr": "pci addr",
    "use rate": "userate",
    "usage rate": "userate",
    "mem": "memory",
    "temperature": "temp",
    "frequency": "freq",
}
_OF_DEVICES = {"pci addr", "inode", "userate", "model"}
_OF_PROCESSES = {"pid", "command"}
_OF_VIDEO = {"dec", "enc", "imgproc"}
_UNIT = re.compile(r"\s{0,4}[(\[][^)\]]{0,8}[)\]]$")
_DOTS = re.compile(r"\.{2,6}|…{1,2}|")
_SHAPES = {
    "bus_id": re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", re.IGNORECASE),
    "node": re.compile(r"/dev/xpu\d{1,4}$"),
    "utilization_percent": re.compile(r"\d{1,3}\s?%$"),
    "health": re.compile(r"[NE]$"),
    "name": re.compile(r"(?:K[12]00|R[2-4]\d\d(?:[-_]\w{1,4}){0,3}|RG800(?:[-_]\w{1,4}){0,2}|P800\b.{0,8})$"),
}
_SIZES = re.compile(r"\d{1,12}\s{0,4}(?:[MG]i?B)?\s{0,4}/\s{0,4}\d{1,12}")


def normalize_label(cell: str) -> str:
    """Return the label without its unit, in lower case: "Power(W)" is "power"."""
    label = " ".join(_UNIT.sub("", cell.strip().lower()).split())
    return _ALIASES.get(label, label)


def is_head(labels: Sequence[str]) -> bool:
    """Return whether these are the labels of one of the tables."""
    known = {"devid", "memory", "l3", "state", *_OF_DEVICES, *_OF_PROCESSES, *_OF_VIDEO} & set(labels)
    return len(known) > 1 or bool(known & {"devid", "pci addr", "inode", "userate", "pid"})


def is_device_head(labels: Sequence[str]) -> bool:
    """Return whether these are the labels of DEVICES."""
    return bool(_OF_DEVICES & set(labels)) and not (_OF_PROCESSES | _OF_VIDEO) & set(labels)


def is_process_head(labels: Sequence[str]) -> bool:
    """Return whether these are the labels of PROCESSES."""
    return bool(_OF_PROCESSES & set(labels))


def is_bus_id(cell: str) -> bool:
    """Return whether the cell is a PCI address."""
    return bool(_SHAPES["bus_id"].match(cell))


def name_cells(head: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the cells by field.

    Where an author put "..." into another place of the row than of the header, the columns that are left count.
    """
    if not _fit(head, cells):
        head, cells = ([word for word in words if not _DOTS.fullmatch(word)] for words in (head, cells))
        if not _fit(head, cells):
            return guess_columns(cells)
    return {_COLUMNS[label]: cell for label, cell in zip(head, cells, strict=False) if label in _COLUMNS}


def _fit(head: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether the cells that have a form stand below their labels; sizes below L3 are not the memory's."""
    by_field = {_COLUMNS.get(label, ""): cell for label, cell in zip(head, cells, strict=False)}
    cells = [cell for label, cell in zip([*head, *[""] * len(cells)], cells, strict=False) if label != "l3"]
    forms = [("node", _SHAPES["node"]), ("memory", _SIZES), ("utilization_percent", _SHAPES["utilization_percent"])]
    shown = [(name, form) for name, form in forms if any(form.match(cell) for cell in cells)]
    return all(form.match(by_field[name]) for name, form in shown if name in by_field)


def guess_columns(cells: Sequence[str]) -> dict[str, str]:
    """Return the cells of a row without a header by their form: of two sizes the first is the L3 cache's.

    A single size below 1 GiB is the cache's too; the memory is in the cell on its right, which cannot be read.
    """
    named = {name: cell for cell in cells for name, shape in _SHAPES.items() if shape.match(cell)}
    sizes = [cell for cell in cells if _SIZES.search(cell)]
    if not {"node", "name"} & named.keys():
        return {}  # other tools' rows have bus ids and sizes too
    if len(sizes) == 1 and _is_cache(sizes[0]):
        if right := cells[cells.index(sizes[0]) + 1 :]:
            named["memory"] = right[0]
    elif sizes:
        named["memory"] = sizes[-1]
    if cells and cells[0].isdecimal():
        named["index"] = cells[0]
    return named


def _is_cache(size: str) -> bool:
    """Return whether the total is that of a cache: 16 or 63 MB; devices have 8 GB or more."""
    found = _SIZES.search(size)
    total = size[found.end() :].strip() if found else ""
    return found is not None and total[:1] != "G" and int(found[0].rpartition("/")[2]) < 1024

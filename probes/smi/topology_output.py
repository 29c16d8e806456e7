"""Parses `topo -m` of nvidia-smi and its followers: columns separated by tabs, blanks, or what a paste left of them.

    GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV12    PXB     0-31            0               N/A
GPU1    NV12     X      SYS     0-31            0               N/A
NIC0    PXB     SYS      X
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.core.model import Document, Topology
from probes.paste.folded_rows import join_folded_lines
from probes.smi.pasted_output import PastedOutput, cell_value

_AFFINITY = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|\S+")
_TAILS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_NAMES = ("GPU", "XPU", "OAM")  # `xpu-smi topo -mo` names the modules
_DEVICE = re.compile(rf"(?:{'|'.join(_NAMES)})\d{{1,4}}$")
_LEGEND = re.compile(r"\s*([A-Z]+#?)\s+=\s+(\w.*)$")
_RELATION = r"X|SYS|NODE|PHB|PXB|PIX|SOC|XL|C2C|NV\d{0,3}"
_GLUED = re.compile(rf"({_RELATION})({_RELATION})")  # where a terminal wrapped
_IS_RELATION = re.compile(rf"(?:{_RELATION})#?$")
_WORD = re.compile(r"[A-Z]{2,8}\d{0,3}$")
_NIC = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*$")
_FOREIGN_SHARE = 8  # one in so many words
HEAD_LINES = 6  # of a wrapped header, and the first row
LINE_LIMIT = 4000  # 72 GPUs and their NICs need 900


def parse_topology(paste: PastedOutput) -> Document | None:
    """Return the document of kind `topo`, or None if there is no matrix."""
    lines = [line for line in paste.lines if len(line) <= LINE_LIMIT]
    heads = (at for at, line in enumerate(lines) if _is_head(line))
    head = next((head for at in heads if (head := _read_columns(lines, at))), None)
    if head is None:
        return None
    columns, body_at = head
    labels = [word for word in columns if word not in _TAILS]
    rows = {label: _split_glued(cells, len(labels)) for label, cells in _read_rows(lines[body_at:], labels).items()}
    if _is_of_other_program(rows):
        return None
    devices = [word for word in labels if _DEVICE.match(word)]
    tails = [word for word in columns if word in _TAILS]
    affinity = {label: _read_affinities(cells, len(labels), tails) for label, cells in rows.items() if label in devices}
    complete = {label: cells for label, cells in rows.items() if len(_drop_empty(cells)) >= len(labels)}
    return Document(
        paste.tool.name,
        "topo",
        truncated=len(complete) < len(labels),
        topology=Topology(
            devices=tuple({"index": int(word[3:]), "label": word} for word in devices),
            nics=tuple(word for word in labels if word not in devices),
            matrix={a: dict(zip(labels, _drop_empty(cells), strict=False)) for a, cells in complete.items()},
            cpu_affinity=_select_column(affinity, tails, "CPU Affinity"),
            numa_affinity=_select_column(affinity, tails, "NUMA Affinity"),
        ),
        detail={
            "gpu_numa_id": _select_column(affinity, tails, "GPU NUMA ID"),
            "legend": _read_legend(lines),
            "nic_legend": {found[1]: found[2] for line in lines if (found := _NIC.match(line))} or None,
        },
    )


def _read_legend(lines: list[str]) -> dict[str, str] | None:
    """Return the meaning of each word; one that a terminal wrapped goes on below."""
    joined = join_folded_lines(lines, lambda line, piece: _LEGEND.match(line) and "=" not in piece)
    return {found[1]: found[2].rstrip() for line in joined if (found := _LEGEND.match(line))} or None


def _is_head(line: str) -> bool:
    if line.lstrip()[:3] not in _NAMES:
        return False
    words = line.split()
    return bool(_DEVICE.match(words[0])) and (len(words) == 1 or words[1].upper() != "X")


def _read_columns(lines: list[str], at: int) -> tuple[list[str], int] | None:
    """Return the words of the header, which may be wrapped over lines, and the position of the first row.

    A row has the X of the diagonal in its own column; a matrix of chosen devices may have any row alone.
    """
    columns: list[str] = []
    head = ""
    for place, line in enumerate(lines[at : at + HEAD_LINES], at):
        words = line.split()
        if words and words[0] in columns and words[1 + columns.index(words[0]) :][:1] == ["X"]:
            return columns, place
        head = f"{head} {' '.join(words)}"
        columns = list(dict.fromkeys(_AFFINITY.findall(head)))
    return None


def _read_rows(lines: list[str], labels: list[str]) -> dict[str, list[str]]:
    """Return label → cells. Tabs keep empty cells; a line without a label continues a row that is too short."""
    rows: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        cells = [cell.strip() for cell in line.rstrip().split("\t")] if "\t" in line.strip() else line.split()
        if cells and not cells[0]:
            cells = cells[1:] if len(cells) > 1 else []
        if not cells or "=" in line or line.strip().endswith(":"):
            current = None if not line.strip() or "=" in line else current
        elif cells[0] in labels and cells[0] not in rows and len(cells) > 1:
            current = rows.setdefault(cells[0], [])
            current += [word for cell in cells[1:] for word in (cell.split() or [""])]
        elif current is not None and len(_drop_empty(current)) < len(labels):
            current += " ".join(cells).split()
        else:
            current = None
    return rows


def _split_glued(cells: list[str], least: int) -> list[str]:
    """Return the cells of a row; where it has too few relations, words that are two of them count as two."""
    if sum(map(bool, map(_IS_RELATION.match, cells))) >= least or not any(map(_GLUED.fullmatch, cells)):
        return cells
    found = map(_GLUED.fullmatch, cells)
    return [word for cell, match in zip(cells, found, strict=True) for word in (match.groups() if match else (cell,))]


def _is_of_other_program(rows: Mapping[str, list[str]]) -> bool:
    """Return whether a good part of the relations are words that only another vendor's program prints."""
    words = [cell for cells in rows.values() for cell in cells if _WORD.match(cell)]
    return sum(not _IS_RELATION.match(word) for word in words) * _FOREIGN_SHARE > len(words) > 0


def _drop_empty(cells: list[str]) -> list[str]:
    return [cell for cell in cells if cell]


def _read_affinities(cells: list[str], width: int, tails: list[str]) -> Mapping[str, str | None]:
    """Return the values after the relations, by column.

    There is a surplus tab before GPU NUMA ID (535 to 590): if there are as many non-empty cells as columns, they are
    assigned in order, otherwise by position.
    """
    seen = 0
    rest = list(cells)
    while rest and seen < width:
        seen += bool(rest.pop(0))
    filled = _drop_empty(rest)
    values = filled if len(filled) >= len(tails) else [*rest, *[""] * len(tails)]
    return {name: cell_value(value) for name, value in zip(tails, values, strict=False)}


def _select_column(
    affinity: Mapping[str, Mapping[str, str | None]], tails: list[str], name: str
) -> dict[str, str | None] | None:
    if name not in tails:
        return None
    return {label: values.get(name) for label, values in affinity.items()}

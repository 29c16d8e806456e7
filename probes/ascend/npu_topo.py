"""Parses `npu-smi info -t topo`: a matrix; columns by order, never by offset, because the header row may be shifted.

\t   NPU0       NPU1       CPU Affinity
NPU0       X          HCCS       144-167
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from envcheck.core.model import Document, Topology
from probes.ascend.npu_page import TOOL, OutputPage
from probes.paste.folded_rows import join_folded_lines

_DEVICE = re.compile(r"(?:NPU|Phy-?ID|Chip|Device)[-_]?\d{1,4}", re.IGNORECASE)
_AFFINITY = re.compile(r"\b(CPU|NUMA)\s+Affinity\b", re.IGNORECASE)
_LEGEND = re.compile(r"\s*([A-Z][A-Z_0-9#]{0,15})\s+=\s+(\w.*)")
_PIECES = 6  # lines into which a terminal may have wrapped one row
_PORT = re.compile(r"(?:RoCE|NIC|mlx|hns|eth).*")
_NUMBERED = re.compile(
    r"\b[\d_]*[A-Za-z]\w*\d"
)  # a network card has the name of its port: enp1s0f0, ib0; no relation has one
_RELATIONS = ("X", "SYS", "PHB", "PIX", "PXB", "NODE", "HCCS", "HCCS_SW", "SIO", "UB", "NA")
_KINDS = ("npu", "id", "chip", "device")
_NAMED = re.compile(r"(?:NPU|ID|Chip|Device)[-_]?\d", re.IGNORECASE)
_TRIES = 500  # maximum number of candidate header lines
_WIDEST = 4096  # columns; a host has 16, a pod's table about a hundred


def read_topology(page: OutputPage) -> Document | None:
    """Return the document of kind `topo`, or None if there is no matrix."""
    if not any(map(page.lowercase_text.__contains__, _KINDS)) or not _NAMED.search(page.body):
        return None
    heads = (at for at, line in enumerate(page.lines) if _begins_with_device(line))
    for at in itertools.islice(heads, _TRIES):
        line = page.lines[at]
        pieces = _collect_header_pieces(page.lines, at)
        if columns := _parse_header("".join(piece.ljust(len(line)) for piece in pieces)):
            return _make_document(
                columns, _collect_records(page.lines[at + len(pieces) :], columns, len(line), len(pieces) > 1)
            )
        if columns := _parse_header(line):
            return _make_document(columns, _collect_records(page.lines[at + 1 :], columns, len(line), False))
    return None


def _begins_with_device(line: str) -> bool:
    """Return whether the line starts with a device name."""
    return bool(words := line.split(None, 1)) and bool(_DEVICE.fullmatch(words[0]))


def _is_row(line: str) -> bool:
    words = line.split(None, 2)
    return (
        len(words) > 1
        and _begins_with_device(line)
        and words[1] not in ("CPU", "NUMA")
        and not _DEVICE.fullmatch(words[1])
    )


def _find_row_name(line: str, columns: set[str]) -> str | None:
    """Return the name of the row, if it is one of the columns': a device's, or a network card's."""
    words = line.split(None, 2)
    is_port_row = len(words) > 1 and words[0] in columns and words[1] in _RELATIONS
    return words[0] if words and words[0] in columns and (is_port_row or _is_row(line)) else None


def _collect_header_pieces(lines: tuple[str, ...], at: int) -> list[str]:
    """Return the pieces of a wrapped header: all lines before the first row."""
    pieces = [lines[at]]
    for line in lines[at + 1 : at + _PIECES]:
        if not line.strip() or _is_row(line):
            break
        pieces.append(line)
    return pieces


def _collect_records(lines: tuple[str, ...], columns: list[str], width: int, broken: bool) -> list[str]:
    """Return the rows; if the header was wrapped, rows are joined at the same width. The legend ends them."""
    rows: list[str] = []
    wanted = set(columns)
    pieces = 0
    for line in join_folded_lines(lines, lambda line, piece: _LEGEND.fullmatch(line) and "=" not in piece):
        if (name := _find_row_name(line, wanted)) is not None:
            wanted.discard(name)
            rows.append(line)
            pieces = 1
        elif broken and rows and line.strip() and 0 < pieces < _PIECES and "=" not in line and ":" not in line:
            rows[-1] = rows[-1].ljust(width * pieces) + line
            pieces += 1
        elif _LEGEND.fullmatch(line):
            rows.append(line)
            pieces = 0
    return rows


def _parse_header(line: str) -> list[str]:
    """Return the column names, with each affinity as one word; empty if the line is not a header."""
    words = _AFFINITY.sub(lambda found: f"{found[1].upper()}-Affinity", line).split()
    if not words or len(words) > _WIDEST or not _DEVICE.fullmatch(words[0]):
        return []
    is_wide = any(_DEVICE.fullmatch(word) or word.endswith("-Affinity") for word in words[1:])
    known = all(
        _DEVICE.fullmatch(word)
        or word.endswith("-Affinity")
        or _PORT.fullmatch(word)
        or (is_wide and _NUMBERED.search(word))
        for word in words
    )
    return words if known else []


def _make_document(columns: list[str], below: list[str]) -> Document:
    devices = [name for name in columns if _DEVICE.fullmatch(name)]
    rest = [name for name in columns if name not in devices and not name.endswith("-Affinity")]
    ends = [name for name in columns if name.endswith("-Affinity")]
    related = [name for name in columns if name not in ends]
    matrix: dict[str, dict[str, str | None]] = {}
    affinity: dict[str, dict[str, str | None]] = {name: {} for name in ends}
    short = False
    for name, words in _parse_rows(columns, below):
        matrix[name] = dict(zip(related, words, strict=False))
        short |= len(words) < len(related)
        for end, word in zip(ends, [*words[len(related) :], *([None] * len(ends))], strict=False):
            if name in devices:
                affinity[end][name] = word
    missing = any(name not in matrix for name in devices)
    topology = Topology(
        devices=tuple(devices),
        nics=tuple(rest),
        matrix=matrix,
        cpu_affinity=affinity.get("CPU-Affinity", {}),
        numa_affinity=affinity.get("NUMA-Affinity", {}),
    )
    legend = {found[1]: found[2].rstrip() for line in below if (found := _LEGEND.fullmatch(line))}
    detail = {"legend": legend, "truncated": short or missing}
    return Document(tool=TOOL, kind="topo", truncated=short or missing, topology=topology, detail=detail)


def _parse_rows(columns: list[str], records: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each row's name and the words below the columns."""
    for record in records:
        name, *words = record.split(None, len(columns) + 1)[: len(columns) + 1]
        if name in columns:
            yield name, words

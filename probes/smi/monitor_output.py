"""Parses `dmon` and `pmon`: two comment lines with names and units, then one row per device or process and second.

# gpu     pwr  gtemp  mtemp     sm    mem
# Idx       W      C      C      %      %
    0      43     35      -      0      0
"""

from __future__ import annotations

import re

from envcheck.core.model import Document
from probes.paste.folded_rows import join_folded_lines
from probes.smi.pasted_output import PastedOutput

_HEAD = re.compile(r"\s*(?:#\s*)?(?:(?:date|time)\s+){0,2}gpu\s", re.IGNORECASE)
_CLOCK = ("date", "time")


def parse_monitor(paste: PastedOutput) -> Document | None:
    """Return the document of kind `dmon` or `pmon`, or None if there is no such header."""
    lines = _join_rows(tuple(line for line in paste.lines if line.strip()))
    for at, line in enumerate(lines[:-1]):
        columns, units = _split_words(line), _split_words(lines[at + 1])
        if _HEAD.match(line.replace(",", " ")) and "idx" in [unit.lower() for unit in units] and len(columns) > 2:
            return _make_document(paste, columns, units, lines[at + 2 :])
    return None


def _join_rows(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines, with the pieces of each joined where a terminal wrapped the head: a sign begins its second
    line."""
    head = next((at for at, line in enumerate(lines[:-1]) if line[:1] == "#" and _HEAD.match(line)), None)
    if head is None or lines[head + 1][:1] == "#":
        return lines
    return (*lines[:head], *join_folded_lines(lines[head:], lambda _line, piece: piece[:1] != "#"))


def _split_words(line: str) -> list[str]:
    return line.strip().lstrip("#").replace(",", " ").split()


def _make_document(paste: PastedOutput, columns: list[str], units: list[str], lines: tuple[str, ...]) -> Document:
    rows, truncated = [], False
    gpu = [column.lower() for column in columns].index("gpu")
    for line in lines:
        words = _split_words(line)
        if len(words) <= gpu or not words[gpu].isdigit():
            continue
        if columns[-1] in ("command", "name") and len(words) > len(columns):  # a command with blanks
            words = [*words[: len(columns) - 1], " ".join(words[len(columns) - 1 :])]
        truncated = len(words) != len(columns)
        if not truncated:
            rows.append({key: None if word == "-" else word for key, word in zip(columns, words, strict=True)})
    kind = "pmon" if "pid" in columns else "dmon"
    detail = {"columns": columns, "units": units, "rows": rows}
    return Document(paste.tool.name, kind, truncated=truncated, detail=detail)

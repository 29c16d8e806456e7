"""Joins rows that were folded at a fixed width: where each row has a prefix and its further pieces have none, or where
the caller knows which lines may go on.

node1: | 0     910B3               | OK            | 93.3      a log or a mail folded the row at its width
     40                0    / 0             |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

_LEAST_WIDTH, _MOST_WIDTH = 40, 240  # characters of a line
_SAMPLE = 500  # lines in which a border shows the prefix
_BORDER = re.compile(r"([^|+\n]{1,60}?)[+|][-=+|]{8,}")
_DIGITS = r"\d{1,40}"
_PARTS = re.compile(r"(\d+)| +")
_SHARE = 0.9  # of the joined rows that must have the prefix


def _compile_prefix(prefix: str) -> re.Pattern[str]:
    """Return the pattern of a prefix with other numbers in it, which may be aligned by blanks."""
    parts = [part for part in _PARTS.split(prefix.rstrip(" ")) if part]
    return re.compile(
        "".join(rf" {{0,80}}{_DIGITS}" if part.isdigit() else f" {{0,80}}{re.escape(part)}" for part in parts)
    )


def join_folded_rows(text: str) -> str:
    """Return the text with its folded rows joined; the text as it is if its rows have no prefix or were not folded."""
    if "---" not in text and "===" not in text:
        return text
    lines = text.split("\n")
    prefix = next((found[1] for line in islice(lines, _SAMPLE) if (found := _BORDER.match(line))), "")
    width = max(map(len, lines))
    if not prefix.strip() or not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        return text
    begin = _compile_prefix(prefix)
    rows: list[str] = []
    is_open = False
    for line in lines:
        if is_open and line and not begin.match(line):
            rows[-1] += line
        else:
            rows.append(line)
        is_open = len(line) == width and bool(begin.match(rows[-1]))
    full = list(filter(str.strip, rows))
    are_rows = len(rows) < len(lines) and sum(map(bool, map(begin.match, full))) >= _SHARE * len(full)
    return "\n".join(rows) if are_rows else text


def join_folded_lines(lines: Iterable[str], goes_on: Callable[[str, str], object]) -> list[str]:
    """Return the lines; a piece is joined to a line of the full width that `goes_on(line, piece)`, and to what it has
    of it."""
    given = list(lines)
    width = max(map(len, given), default=0)
    joined: list[str] = []
    is_full = False
    for line in given:
        if is_full and line.strip() and goes_on(joined[-1], line):
            joined[-1] += line
        else:
            joined.append(line)
        is_full = len(line) == width >= _LEAST_WIDTH
    return joined

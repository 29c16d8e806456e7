"""Joins rows that were folded at a fixed width: where each row has a prefix and its further pieces have none, or where
the caller knows which lines may go on.

node1: | 0     910B3               | OK            | 93.3      a log or a mail folded the row at its width
     40                0    / 0             |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from probes.paste.wrapped_rows import LEAST_WIDTH, MOST_WIDTH, is_full

_SAMPLE = 500  # lines in which a border shows the prefix
_LONGEST = 60  # characters of a prefix
_BORDER = re.compile(rf"([^|+\n]{{1,{_LONGEST}}}?)[+|][-=+|]{{8,}}")
_BARE_BORDER = re.compile(r"[+|=-][-=+|]{8,}\s*$")
_DIGIT = re.compile(r"\d+")
_DIGITS = r"\d{1,40}"
_PARTS = re.compile(r"(\d+)| +")
_SHARE = 0.9  # of the joined rows that must have the prefix


def _compile_prefix(prefix: str) -> re.Pattern[str]:
    """Return the pattern of a prefix with other numbers in it, which may be aligned by blanks."""
    if prefix.isspace():
        return re.compile(rf"{prefix}(?=\S|$)")
    parts = [part for part in _PARTS.split(prefix.rstrip(" ")) if part]
    return re.compile(
        "".join(rf" {{0,80}}{_DIGITS}" if part.isdigit() else f" {{0,80}}{re.escape(part)}" for part in parts)
    )


def _find_prefix(lines: Sequence[str]) -> str:
    """Return what is before the borders, or alone above each where they were too long for the rest of the line."""
    if found := next(filter(None, map(_BORDER.match, lines)), None):
        return found[1] if found[1].strip() else ""
    above = [line for line, below in pairwise(lines) if _BARE_BORDER.match(below) and not _BARE_BORDER.match(line)]
    shapes = {_DIGIT.sub("0", line) for line in above}
    is_prefix = len(above) > 1 and len(shapes) == 1 and len(above[0]) <= _LONGEST
    return above[0] if is_prefix and above[0].lstrip()[:1] not in ("|", "+") else ""


def join_folded_rows(text: str) -> str:
    """Return the text with its folded rows joined; the text as it is if its rows have no prefix or were not folded."""
    if "---" not in text and "===" not in text:
        return text
    lines = text.split("\n")
    prefix = _find_prefix(lines[:_SAMPLE])
    width = max(map(len, lines))
    if not prefix or not LEAST_WIDTH <= width <= MOST_WIDTH:
        return text
    begin = _compile_prefix(prefix)
    rows: list[str] = []
    above = ""
    for line in lines:
        if line and above and not begin.match(line) and is_full(above, line, width, len(above)):
            rows[-1] += line if len(above) == width or above[-1].isspace() else f" {line}"
            above = line
        else:
            rows.append(line)
            above = line if begin.match(line) else ""
    full = list(filter(str.strip, rows))
    are_rows = len(rows) < len(lines) and sum(map(bool, map(begin.match, full))) >= _SHARE * len(full)
    return "\n".join(rows) if are_rows else text


def join_folded_lines(lines: Iterable[str], goes_on: Callable[[str, str], object]) -> list[str]:
    """Return the lines; a piece is joined to a line of the full width that `goes_on(line, piece)`, and to what it has
    of it."""
    given = list(lines)
    width = max(map(len, given), default=0)
    joined: list[str] = []
    above = ""
    for line in given:
        is_open = width >= LEAST_WIDTH and (len(above) == width or above[-1:].isspace())
        if is_open and line.strip() and is_full(above, line, width, len(above)) and goes_on(joined[-1], line):
            joined[-1] += line
        else:
            joined.append(line)
        above = line
    return joined

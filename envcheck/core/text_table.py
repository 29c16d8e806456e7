"""Tables with borders as command-line tools print them, parsed by their characters, never by column offset."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_RULE = re.compile(r"[+|][-=+|]{3,}")
_FRAGMENT = re.compile(r"[-=][-=+]*\+?|\+")  # the rest of a wrapped rule, on the next line
_ELLIPSIS = re.compile(
    r"[|\s]*(?:\.{3,}[^|]{0,60}|…+[^|]{0,60}|\.(?: \.){2,}|\[\.{3}\]|<snip>|\[?(?:omitted|truncated|省略)\]?)[|\s]*"
)
_DOTS = re.compile(r"\s{0,40}\.{2,6}\s{0,20}(?=\|.{0,400}\|\s{0,40}$)")
_ELLIPSIS_BEGINS = re.compile(r"[|\s]*[.…\[<ot省]")  # a cheap test before the expensive one
_SIGNS = ("-", "=", "+", "|")  # the second character of a rule
_PIECES = 6  # lines into which a terminal may have wrapped one row


class TableRow(NamedTuple):
    """One line of a table: `cells` are the texts between the bars; a rule has none.  `closed` is False if the line was
    cut; `is_double` is whether it is a rule of `=`."""

    cells: tuple[str, ...]
    closed: bool
    width: int = 0
    is_double: bool = False

    @property
    def is_rule(self) -> bool:
        """Whether the line is a separator, such as +-----+."""
        return not self.cells


@dataclass(frozen=True)
class TableGap:
    """A line of dots in place of rows that a person left out."""


def parse_rows(lines: Sequence[str]) -> Iterator[TableRow | TableGap]:
    """Yield the rows, rules and gaps among `lines`; other lines are ignored."""
    lines = unwrap_rows([piece for line in lines for piece in _separate_dots(line)])
    width = max((len(line) for line in lines if line.lstrip()[:1] == "|"), default=0)
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line[1:2] in _SIGNS and (rule := _parse_rule(line)):
            yield rule
        elif line.startswith("|"):
            at, line = _join_pieces(lines, at, width)
            yield _parse_row(line)
        elif line and _ELLIPSIS.fullmatch(line):
            yield TableGap()


def _separate_dots(line: str) -> Sequence[str]:
    """Return the row behind leading dots, by which a person says that rows before it were left out."""
    found = _DOTS.match(line) if ".." in line[:80] else None
    return ("...", line[found.end() :]) if found else (line,)


@functools.lru_cache(maxsize=64)  # a table repeats the same rule
def _parse_rule(line: str) -> TableRow | None:
    return TableRow((), line[-1] in "+|", len(line), "=" in line) if _RULE.fullmatch(line) else None


@functools.lru_cache(maxsize=1024)
def _parse_row(line: str) -> TableRow:
    closed = len(line) > 1 and line.endswith("|")
    inner = line[1:-1] if closed else line[1:]
    if _ELLIPSIS_BEGINS.match(line) and _ELLIPSIS.fullmatch(line):
        return TableRow(("...",), True, len(line))
    return TableRow(tuple(map(str.strip, inner.split("|"))), closed, len(line))


def _join_pieces(lines: Sequence[str], at: int, width: int) -> tuple[int, str]:
    """Return the next position and the row, joined from the pieces into which a mail program wrapped it at blanks."""
    first = line = lines[at - 1]
    if at < len(lines) and lines[at].startswith(("|", "+")):
        return at, first.strip()
    for ahead in range(at, min(at + _PIECES, len(lines))):
        piece = lines[ahead]
        if line.rstrip().endswith("|") and not piece.rstrip().endswith("|"):
            break
        if not piece.strip() or piece.lstrip()[0] in "|+" or _ELLIPSIS.fullmatch(piece):
            break
        line = line.ljust(width * (ahead - at + 1)) + piece
        if piece.rstrip().endswith("|"):
            return ahead + 1, line.strip()
    return at, first.strip()


def unwrap_rows(lines: Sequence[str]) -> list[str]:
    """Return the lines with the rows joined again that a terminal wrapped at its width.

    A wrapped rule shows the width and the number of pieces; each row has as many pieces, even if trailing blanks were
    lost.
    """
    width, pieces = _find_broken_rule(lines)
    if pieces < 2:
        return list(lines)
    whole: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        step = 1
        taken = lines[at : at + pieces]
        if line.lstrip()[:1] in ("|", "+") and not _is_whole_row(taken, width):
            joined = "".join(piece.ljust(width) for piece in taken).rstrip()
            if joined.endswith(line.lstrip()[0]):
                line, step = joined, pieces
        whole.append(line)
        at += step
    return whole


def _is_whole_row(taken: Sequence[str], width: int) -> bool:
    """Return whether the row ends before the terminal's edge and the next line is another row."""
    line = taken[0].rstrip()
    return len(line) < width and line.endswith("|") and (len(taken) < 2 or taken[1].lstrip()[:1] in ("|", "+", ""))


def _find_broken_rule(lines: Sequence[str]) -> tuple[int, int]:
    """Return the width of a wrapped rule's first piece and its number of pieces; (0, 1) if no rule is wrapped."""
    for at, line in enumerate(lines):
        if line.lstrip().startswith("+") and _RULE.fullmatch(line.strip()):
            pieces = 1
            for piece in lines[at + 1 : at + _PIECES]:
                if not _FRAGMENT.fullmatch(piece.strip()):
                    break
                pieces += 1
                if piece.strip().endswith("+") and len(piece.rstrip()) < len(line):
                    return len(line), pieces
            return 0, 1
    return 0, 1

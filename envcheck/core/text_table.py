"""Boxed tables as command-line tools draw them: rows by their bars, rules by their signs, never by offset."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_RULE = re.compile(r"[+|][-=+|]{3,}")
_FRAGMENT = re.compile(r"[-=][-=+]*\+?|\+")  # what is left of a rule on the next line
_ELLIPSIS = re.compile(
    r"[|\s]*(?:\.{3,}[^|]{0,60}|…+[^|]{0,60}|\.(?: \.){2,}|\[\.{3}\]|<snip>|\[?(?:omitted|truncated|省略)\]?)[|\s]*"
)
_ELLIPSIS_BEGINS = re.compile(r"[|\s]*[.…\[<ot省]")  # a cheap look, before the dear one
_SIGNS = ("-", "=", "+", "|")  # what a rule goes on with
_PIECES = 6  # lines into which a terminal may have wrapped one row


@dataclass(frozen=True)
class Row:
    """One line of a box: `cells` between the bars; a rule has none.  `closed` is False where the line was cut."""

    cells: tuple[str, ...]
    closed: bool
    width: int = 0

    @property
    def is_rule(self) -> bool:
        return not self.cells


@dataclass(frozen=True)
class Gap:
    """A line of dots where somebody left rows out."""


def rows(lines: Sequence[str]) -> Iterator[Row | Gap]:
    """The boxed rows, rules and gaps among `lines`; whatever else stands there is passed over."""
    lines = unwrapped(lines)
    width = max((len(line) for line in lines if line.lstrip()[:1] == "|"), default=0)
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line[1:2] in _SIGNS and (rule := _rule(line)):
            yield rule
        elif line.startswith("|"):
            at, line = _joined(lines, at, width)
            yield _row(line)
        elif line and _ELLIPSIS.fullmatch(line):
            yield Gap()


@functools.lru_cache(maxsize=64)  # a table has the same one between all its rows
def _rule(line: str) -> Row | None:
    return Row((), line[-1] in "+|", len(line)) if _RULE.fullmatch(line) else None


def _row(line: str) -> Row:
    closed = len(line) > 1 and line.endswith("|")
    inner = line[1:-1] if closed else line[1:]
    if _ELLIPSIS_BEGINS.match(line) and _ELLIPSIS.fullmatch(line):
        return Row(("...",), True, len(line))
    return Row(tuple(cell.strip() for cell in inner.split("|")), closed, len(line))


def _joined(lines: Sequence[str], at: int, width: int) -> tuple[int, str]:
    """A row with the pieces that a mail program broke off at blanks, while it left the rules whole."""
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


def unwrapped(lines: Sequence[str]) -> list[str]:
    """Rows put together again that a terminal broke at its width; a broken rule shows where, and in how many pieces.

    Each row then takes as many lines as the rule does, also where the blanks at a line's end got lost.
    """
    width, pieces = _broken(lines)
    if pieces < 2:
        return list(lines)
    whole: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        step = 1
        taken = lines[at : at + pieces]
        if line.lstrip()[:1] in ("|", "+") and not _is_whole(taken, width):
            joined = "".join(piece.ljust(width) for piece in taken).rstrip()
            if joined.endswith(line.lstrip()[0]):
                line, step = joined, pieces
        whole.append(line)
        at += step
    return whole


def _is_whole(taken: Sequence[str], width: int) -> bool:
    """A row that ends before the terminal's edge, with the next row below it."""
    line = taken[0].rstrip()
    return len(line) < width and line.endswith("|") and (len(taken) < 2 or taken[1].lstrip()[:1] in ("|", "+", ""))


def _broken(lines: Sequence[str]) -> tuple[int, int]:
    """The width of a broken rule's first piece, and its number of pieces; (0, 1) where none is broken."""
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

"""Joins rows and sentences that a terminal, a chat or a mail wrapped at one width, at the column or at the last blank.

+--------------------------------------------      the pieces of a border tell the width, and how wide each row is
----------------------------------+
GPU0  X  NV12  SYS  SYS  0-63,128                  rows without borders: several in a row have as many pieces, of
-191  0  N/A                                       which only the first ones begin like rows
ixsmi: error while loading shared lib              a sentence or a value without its end, a command
raries: libixml.so: cannot open
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

LEAST_WIDTH, MOST_WIDTH = 40, 240  # of a terminal
_USUAL_WIDTHS = (80, 100, 120)
_MOST_PIECES = 8  # of a row
_LEAST_ROWS = 3  # with as many pieces
_WORD = 45  # characters of a word that did not fit
_SHARE = 0.8  # of the lines of a block that may be full: each row has a last piece
_TAIL = 80  # characters that tell a sentence
_BORDER = re.compile(r"[ \t]*[+|=-][-=+|]{39,}\s*")
_BORDER_REST = re.compile(r"[-=+|]+\s*")
_NUMBER = re.compile(r"\d+")
_BORDER_SIGNS = frozenset("+|-=")
_BORDER_ENDS = frozenset(("--", "-+", "-|", "==", "=+", "=|"))
_BEGIN = re.compile(r"(\s*)(\|?\s*\S+)")
_KEY = re.compile(r"\s*(?:[A-Za-z][\w ()%/.#-]{0,60}?(?::\s|\s+[:=]\s)|:\s)")
_SENTENCE = re.compile(r"(?:.*?\b[a-z]{2,}\b){4}")
_SENTENCE_ENDS = (".", "!", ":", ";", ")", ",")
_NO_PIECES = ("|", "+", "#", "$", "<", ">", "-", "=", ":")  # of sentences


@dataclass(frozen=True)
class WrappedLine:
    """The index of the first piece, that of the line behind the last one, and the whole line."""

    first: int
    end: int
    text: str


class _TableLine(NamedTuple):
    """The sign that begins a border or a row, whether the line is a border, and whether it is a row without its end."""

    sign: str
    is_border: bool
    is_open: bool


def is_full(line: str, below: str, width: int, own: int) -> bool:
    """Return whether no word of the line below, with the blank behind it, fits behind a line that is `own` wide."""
    if own >= width or own + len(below) + 1 < width:
        return own == width
    if 0 < below.find(" ") < width - own - 1 and "\t" not in below:  # the usual case
        return False
    if not (rest := below.lstrip()):
        return False
    word = below[: len(below) - len(rest)] + rest.split(None, 1)[0]
    gap = 0 if word[0].isspace() or line[-1:].isspace() else 1
    end = own + gap + len(word) + (len(word) < len(below))
    return end > width or ("\t" in below[: len(word) + 1] and _expand(below[: len(word) + 1], own + gap) > width)


def _expand(text: str, column: int) -> int:
    """Return the column behind a text that begins in this column."""
    return len((" " * column + text).expandtabs())


def join_pieces(pieces: Sequence[str]) -> str:
    """Return the pieces of a line as one, with the blanks at which those that are not the widest were cut."""
    width = max(map(len, pieces))
    joined = pieces[0]
    for above, below in pairwise(pieces):
        is_whole = len(above) == width or above[-1:].isspace() or below[:1].isspace()
        joined += below if is_whole else f" {below}"
    return joined


class RowJoiner:
    """Finds the wrapped lines of a text; `begins_output` and `is_command` tell what lines are."""

    def __init__(
        self, lines: Sequence[str], begins_output: Callable[[str], object], is_command: Callable[[str], object]
    ) -> None:
        self._lines, self._begins_output, self._is_command = lines, begins_output, is_command
        self._proven = {*_USUAL_WIDTHS}
        distinct = dict.fromkeys(lines)  # most lines of a watch log are equal
        self._widths = list(map(len, lines))
        if tabbed := {line for line in distinct if "\t" in line}:
            self._widths = [len(line.expandtabs()) if line in tabbed else len(line) for line in lines]
        self._blanks = {line for line in distinct if not line or line.isspace()}
        self._table_lines = {line: _read_table_line(line) for line in distinct if line.lstrip()[:1] in _BORDER_SIGNS}
        self._has_options = any(map(_begins_option, self._table_lines))

    def find_lines(self) -> list[WrappedLine]:
        """Return the wrapped lines in order."""
        if max(self._widths, default=0) < LEAST_WIDTH:
            return []
        gaps = [at for at, line in enumerate(self._lines) if line in self._blanks]
        found = list(self._find_tables(gaps))
        used = {at for each in found for at in range(each.first, each.end)}
        for block in self._list_blocks(sorted({*gaps, *used}) if used else gaps):
            width = max(self._widths[block.start : block.stop])
            if LEAST_WIDTH <= width <= MOST_WIDTH:
                full = self._list_full(block, width)
                rows = self._find_rows(block, width, full)
                found += rows
                if full or self._has_options:
                    found += self._find_sentences(block, width, full, rows)
        return sorted(found, key=lambda each: each.first)

    def _list_blocks(self, ends: Sequence[int]) -> Iterator[range]:
        """Yield the runs of several lines between these ones."""
        for above, end in pairwise([-1, *ends, len(self._lines)]):
            if end - above > 2:
                yield range(above + 1, end)

    def _list_full(self, block: range, width: int) -> set[int]:
        """Return the indices of lines behind which no word of the line below fits.

        Those of a border or a row that ends, with another one below it, are none.
        """
        least, widths, lines, rows = width - _WORD, self._widths, self._lines, self._table_lines
        likely = [at for at in range(block.start, block.stop - 1) if widths[at] > least]
        likely = [at for at in likely if lines[at][-2:] not in _BORDER_ENDS]
        likely = [at for at in likely if lines[at][-1] != "|" or lines[at + 1] not in rows]
        return {
            at
            for at in likely
            if widths[at] == width or (widths[at] + widths[at + 1] + 1 >= width and self._is_full(at, width))
        }

    def _is_full(self, at: int, width: int) -> bool:
        """Return whether no word of the line below fits behind the line."""
        return is_full(self._lines[at], self._lines[at + 1], width, self._widths[at])

    def _find_tables(self, gaps: Sequence[int]) -> Iterator[WrappedLine]:
        """Yield the rows of tables whose borders were wrapped; no row is wrapped like those above a gap."""
        widest, signed = max(self._widths), self._table_lines.keys()
        for block in self._list_blocks(gaps) if signed else ():
            if not signed.isdisjoint(self._lines[block.start : block.stop]):
                yield from self._find_table_rows(block, widest)

    def _find_table_rows(self, block: range, widest: int) -> Iterator[WrappedLine]:
        lines, widths, table_lines = self._lines, self._widths, self._table_lines
        at = block.start
        width, total = self._find_first_border(block)
        while at < block.stop - 1:
            line, end = lines[at], at + 1
            sign, is_border, is_open = table_lines.get(line, _NO_TABLE_LINE)
            if is_border:
                end = self._find_end_of_border(at)
                width, total = (widths[at], sum(widths[at:end])) if end > at + 1 else (0, 0)
                self._proven.add(width)
            elif total and (sign == "|" or line.lstrip()[:1] == "."):
                end = self._find_end_of_row(at, width, total)
            elif is_open and self._ends_row(end) and self._is_full(at, widest):
                end += 1
            if end > at + 1:
                yield WrappedLine(at, end, self._join(at, end, width or widest, total))
            at = end

    def _find_first_border(self, block: range) -> tuple[int, int]:
        """Return the width of the first piece of the first border, and of the whole one; zeros if not wrapped."""
        for at in block:
            line = self._lines[at]
            if "---" in line and line in self._table_lines and self._table_lines[line].is_border:
                end = self._find_end_of_border(at)
                return (self._widths[at], sum(self._widths[at:end])) if end > at + 1 else (0, 0)
        return 0, 0

    def _find_end_of_border(self, at: int) -> int:
        """Return the index behind the last piece of a border: a cut leaves no corner on both of its sides."""
        width, end = self._widths[at], at + 1
        while end < len(self._lines) and self._widths[end - 1] == width and end - at < _MOST_PIECES:
            above, below = self._lines[end - 1].rstrip(), self._lines[end]
            is_rest = self._widths[end] <= width and _BORDER_REST.fullmatch(below)
            if not is_rest or (above[-1] in "+|" and below[0] in "+|"):
                break
            end += 1
        return end if self._widths[end - 1] < width else at + 1

    def _ends_row(self, at: int) -> bool:
        """Return whether a line ends the row above it, which has no end, and begins none."""
        above, below = self._lines[at - 1].strip(), self._lines[at]
        return above[:1] == "|" != above[-1] and below[:1] != "|" and below.rstrip()[-1:] == "|"

    def _find_end_of_row(self, at: int, width: int, total: int) -> int:
        end, own = at + 1, self._widths[at]
        while end < len(self._lines) and end - at < _MOST_PIECES and own < total:
            own += self._widths[end]
            below = self._lines[end]
            is_row = below[:1] in ("|", "+") and not self._is_full(end - 1, width)
            is_rest = self._ends_row(end) or (self._widths[end] < width and self._is_full(end - 1, width))
            if is_row or not below.strip() or _BORDER.fullmatch(below) or (own > total and not is_rest):
                break
            end += 1
        return end

    def _find_rows(self, block: range, width: int, full: Collection[int]) -> list[WrappedLine]:
        """Return the wrapped rows of a block of lines: those of a table without borders, or whose borders are short."""
        if not _LEAST_ROWS <= len(full) <= _SHARE * len(block):
            return []
        widest = {at for at in full if self._widths[at] == width}
        cut = self._select_rows(list(self._split_rows(block, widest)))
        soft = cut if len(widest) == len(full) else self._select_rows(list(self._split_rows(block, full)))
        if len(cut) < len(soft) or not self._is_cut_at_column(cut, width):
            return [WrappedLine(*row, self._join(*row, 0)) for row in soft]
        self._proven |= {width} if cut else set()
        return [WrappedLine(*row, self._join(*row, width)) for row in cut]

    def _select_rows(self, rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the wrapped rows: several ones in a row with as many pieces, the head above them, and their like."""
        rows = [row for row in rows if not self._is_border(row[0])]
        counts = [_count_pieces(tuple(self._lines[slice(*row)])) if row[1] > row[0] + 1 else 1 for row in rows]
        proven: set[int] = set()
        for count, group in groupby(range(len(rows)), counts.__getitem__):
            places = list(group)
            if count > 1 and len(places) >= _LEAST_ROWS and not any(self._has_output(rows[at]) for at in places[:2]):
                proven |= {*places, *([places[0] - 1] if places[0] and counts[places[0] - 1] > 1 else [])}
        if not proven:
            return []
        begins = {_name_begin(self._lines[rows[at][0]]) for at in proven}
        others = [part for at, row in enumerate(rows) if at not in proven for part in self._split_at(row, begins)]
        return [rows[at] for at in sorted(proven)] + [row for row in others if row[1] > row[0] + 1]

    def _has_output(self, row: tuple[int, int]) -> bool:
        """Return whether a piece of a row begins an output; those of a head may look like heads, too."""
        line, *pieces = self._lines[slice(*row)]
        return any(map(self._begins_output, pieces)) and not self._begins_output(line)

    def _split_at(self, row: tuple[int, int], begins: Collection[tuple[str, str]]) -> Iterator[tuple[int, int]]:
        """Yield the rows in a row with a whole line before them: each piece that begins like a row is one."""
        firsts = [at for at in range(*row) if _name_begin(self._lines[at]) in begins]
        return pairwise([*firsts, row[1]])

    def _split_rows(self, block: range, full: Collection[int]) -> Iterator[tuple[int, int]]:
        first = block.start
        while first < block.stop:
            end = first + 1
            while end < block.stop and end - 1 in full and not self._is_border(end):
                end += 1
            yield first, end
            first = end

    def _is_border(self, at: int) -> bool:
        line = self._lines[at]
        return line in self._table_lines and _BORDER_REST.fullmatch(line.strip()) is not None

    def _is_cut_at_column(self, rows: Sequence[tuple[int, int]], width: int) -> bool:
        """Return whether the lines were cut at the column: a word that follows another one was not."""
        pieces = [at for first, end in rows for at in range(first + 1, end)]
        is_glued = all(not self._lines[at][0].isspace() and not self._lines[at - 1][-1].isspace() for at in pieces)
        return width in _USUAL_WIDTHS or not is_glued

    def _find_sentences(
        self, block: range, width: int, full: set[int], rows: Sequence[WrappedLine]
    ) -> Iterator[WrappedLine]:
        """Yield the wrapped sentences, values and commands of a block of lines beside its wrapped rows."""
        used = {at for row in rows for at in range(row.first, row.end)}
        below = range(block.start + 1, block.stop) if self._has_options else ()
        likely = full | {at - 1 for at in below if _begins_option(self._lines[at])}
        done = 0
        for at in sorted(likely - used):
            end = at + 1
            while at >= done and end < block.stop and end - at < _MOST_PIECES and self._goes_on(at, end, width, full):
                end += 1
            if end > at + 1 and self._is_output(at, at + 2, width):
                is_cut = width in self._proven
                yield WrappedLine(at, end, self._join(at, end, width if is_cut else 0))
                done = end

    def _is_output(self, first: int, end: int, width: int) -> bool:
        """Return whether a line is of an output: a message, a key with its value, a command; prose stays as it is."""
        line = self._lines[first]
        return bool(_KEY.match(line) or self._begins_output(line) or self._is_command(self._join(first, end, width)))

    def _goes_on(self, first: int, at: int, width: int, full: Collection[int]) -> bool:
        """Return whether the line at `at` goes on with the words of those above it."""
        above, below = self._lines[at - 1], self._lines[at]
        if _begins_option(below) and self._is_command(above):
            return True
        sign, width_above = above.lstrip()[:1], self._widths[at - 1]
        if sign in ("|", "+") or below.lstrip()[:1] in _NO_PIECES or at - 1 not in full:
            return False
        is_cut = width_above == width and width in self._proven
        if not (is_cut or width_above < width or above[-1] == " ") or _name_begin(below) == _name_begin(above):
            return False
        if (is_cut or above[-1] == " ") and self._is_command(self._join(first, at + 1, width)):
            is_cut_word = is_cut and above[-1].isalnum() and below[0].islower()
            return (is_cut_word or not self._is_command(above)) and not self._begins_output(below)
        is_open = self._is_open_sentence(above, below)
        is_word = below.lstrip()[0].islower() and (is_cut or is_open)
        is_value = below[0].islower() or below[0].isdigit() or not _KEY.match(above)
        is_value = is_value or _SENTENCE.match(above[-_TAIL:]) is not None
        is_column = above[-2:] == "  " != below[:2] and not is_open
        if (sign in _NO_PIECES and sign != ":") or not is_value or is_column or (_KEY.match(below) and not is_word):
            return False
        return (is_cut or is_open) and not self._begins_output(below)

    def _is_open_sentence(self, above: str, below: str) -> bool:
        """Return whether a line is part of a sentence that has no end, or was cut at a blank."""
        is_open = above[-1] == " " or (above[-1] not in _SENTENCE_ENDS and below[0].islower())
        return is_open and _SENTENCE.match(above[-_TAIL:]) is not None

    def _join(self, first: int, end: int, width: int, total: int = 0) -> str:
        """Return the pieces as one line: those that were cut at this column fill it, others were cut at a blank; one
        that is `total` wide has as many blanks there."""
        missing = total - sum(self._widths[first:end])
        joined = self._lines[first]
        for at in range(first + 1, end):
            own, below = self._widths[at - 1], self._lines[at]
            if total and own < width:
                joined, missing = joined + " " * missing, 0
            elif not total and own != width and not (joined[-1:].isspace() or below[0].isspace()):
                joined += " "
            joined += below
        return joined


_NO_TABLE_LINE = _TableLine("", is_border=False, is_open=False)


def _read_table_line(line: str) -> _TableLine:
    text = line.strip()
    return _TableLine(text[0], _BORDER.fullmatch(line) is not None, text[0] == "|" != text[-1])


def _begins_option(line: str) -> bool:
    return line[:2] == "--" and line[2:3].isalpha()


@lru_cache(maxsize=4096)
def _count_pieces(lines: tuple[str, ...]) -> int:
    """Return the number of pieces of a row, 0 if one of them begins like a row."""
    line, *pieces = lines
    begin = _name_begin(line)
    if len(pieces) >= _MOST_PIECES or line.lstrip()[:1] == "<" or _KEY.match(line):
        return 0
    is_other = any(_name_begin(piece) == begin or _KEY.match(piece) for piece in pieces)
    return 0 if is_other else len(lines)


@lru_cache(maxsize=4096)
def _name_begin(line: str) -> tuple[str, str]:
    """Return the blanks and the first word of a line, with zeros for its numbers."""
    found = _BEGIN.match(line)
    return (found[1], _NUMBER.sub("0", found[2])) if found else ("", "")

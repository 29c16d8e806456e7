"""Joins lines that a terminal wrapped at its width: of CSV, whose head or command tells how many cells a row has, and a
document of XML on one line.

index, name, uuid, memory.used [MiB], memory.to      a head goes on as long as its pieces are names
tal [MiB], utilization.gpu [%]
0, NVIDIA A100, GPU-0a1b2c3d-0000-1111-2222-333      a row, as long as it has fewer cells than the head
344445550, 3 MiB, 40960 MiB, 0 %
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from probes.paste.host_marks import HostText
from probes.paste.wrapped_rows import RowJoiner, WrappedLine, is_full, join_pieces

_LEAST_WIDTH = 40  # of a terminal
_MOST_PIECES = 400  # of a line: a head of 6,570 characters at 40 columns has 165
_LEAST_PIECES = 3  # of the width of the terminal, of a document
_PATIENCE = 3  # other lines between two rows
_NAME = r"\"?[A-Za-z][\w.]{0,90}(?: \[[^\[\],]{0,12}\]?)?\"?"  # the last one may be cut
_NAMES = re.compile(rf"(?:{_NAME},\s?)*(?:{_NAME})?")
_FORMAT = re.compile(r"--format[= ]{0,2}[\"']?csv")
_QUERY = re.compile(r"--query-[a-z-]{2,24}[= ] ?[\"']?[A-Za-z][\w.]*((?: ?, ?[\w.]+)*)")
_OPTION_END = re.compile(r"[a-z,]{1,20}[\"']?\s*")  # of `csv,noheader,nounits`
_FORMAT_WORD = 20  # characters
_HEAD_BEGIN = ' "abcdefghijklmnopqrstuvwxyz'
_UNIT = re.compile(r"\[[^\[\],]{1,12}\]$")


def _is_no(line: str) -> bool:
    return False


@dataclass(frozen=True)
class _CsvRow:
    """What tells a whole row: how many commas it has at least, and the unit of its last cell, "" if not known.

    `width` is that of the terminal, or with `is_width` false only of the head, which was not wrapped.
    """

    commas: int
    unit: str
    width: int
    is_width: bool

    def is_cut(self, line: str, commas: int, below: str) -> bool:
        """Return whether the row may go on in the line below it."""
        if self.is_width:
            return is_full(line, below, self.width, len(line))
        end = line[-len(self.unit) :]
        lacks_unit = bool(self.unit) and end != self.unit and f"{end}{below.rstrip()}".endswith(self.unit)
        if not (0 < commas < self.commas or lacks_unit):
            return False
        return len(line) >= self.width or is_full(line, below, self.width, len(line))

    def may_have(self, commas: int, piece: str, width: int) -> bool:
        """Return whether a row with so many commas may have this piece, too: a name may have commas of its own, and a
        short line with too few of them is no row."""
        own = piece.count(",")
        return commas + own <= self.commas or (len(piece) < width and own < self.commas)


def join_wrapped_lines(
    given: HostText, begins_output: Callable[[str], object] = _is_no, is_command: Callable[[str], object] = _is_no
) -> HostText:
    """Return the lines with the pieces of each wrapped one joined; it has the number of its first piece."""
    sheets = [WrappedLine(*span, join_pieces(given.lines[slice(*span)])) for span in _find_wrapped_lines(given.lines)]
    joined = _join_lines(given, sheets)
    return _join_lines(joined, RowJoiner(joined.lines, begins_output, is_command).find_lines())


def _join_lines(given: HostText, wrapped: Sequence[WrappedLine]) -> HostText:
    if not wrapped:
        return given
    lines: list[str] = []
    numbers: list[int] = []
    done = 0
    for each in wrapped:
        lines += [*given.lines[done : each.first], each.text]
        numbers += [*given.numbers[done : each.first], given.numbers[each.first]]
        done = each.end
    return replace(given, lines=lines + given.lines[done:], numbers=[*numbers, *given.numbers[done:]])


def _find_wrapped_lines(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indices of the first piece of each wrapped line, and of the line behind its last piece."""
    spans: list[tuple[int, int]] = []
    done = 0
    for at, line in enumerate(lines):
        if line[:5] == "<?xml" and at >= done:
            done = _find_end_of_document(lines, at)
            spans += [(at, done)] if done > at + 1 else []
            continue
        if "," not in line or at < done or not _has_wide_line(lines, at) or not _begins_sheet(line):
            continue
        width = max(map(len, takewhile(str.strip, lines[at : at + _MOST_PIECES])))
        if "--query-" in line:
            done = _find_end_of_command(lines, at, width)
            found = _QUERY.search("".join(lines[at:done]))
            commas, unit = found[1].count(",") if found else 0, ""
        else:
            done = _find_end_of_head(lines, at, width)
            head = "".join(lines[at:done])
            commas, unit = head.count(","), (_UNIT.search(head) or [""])[0].strip("[]")
        if done > at + 1:
            spans.append((at, done))
        if commas:
            rows, done = _find_wrapped_rows(
                lines, done, _CsvRow(commas, unit, width if done > at + 1 else len(line), done > at + 1)
            )
            spans += rows
    return spans


def _find_end_of_document(lines: Sequence[str], at: int) -> int:
    """Return the index behind the last piece of a document: the lines of others differ in their lengths."""
    width, end = len(lines[at]), at + 1
    while width >= _LEAST_WIDTH and end < len(lines) and len(lines[end]) == width:
        end += 1
    return min(end + 1, len(lines)) if end - at >= _LEAST_PIECES else at + 1


def _has_wide_line(lines: Sequence[str], at: int) -> bool:
    """Return whether the line or one below it is as wide as a terminal: in most texts, words with commas are not."""
    return any(len(line) >= _LEAST_WIDTH for line in lines[at : at + _PATIENCE])


def _begins_sheet(line: str) -> bool:
    """Return whether the line is a command with a query, or a head, or begins with names of one."""
    is_head = "," in line and line[0] in _HEAD_BEGIN and _NAMES.fullmatch(line.strip()) is not None
    return is_head or ("," in line and "--query-" in line)


def _find_end_of_head(lines: Sequence[str], at: int, width: int) -> int:
    """Return the index behind the last piece of a head: what each piece adds are names, of which the last goes on."""
    end = at + 1
    last = lines[at].rpartition(",")[2]
    while _may_go_on(lines, at, end, width) and _NAMES.fullmatch(f"{last}{lines[end]}".strip()):
        last = f"{last}{lines[end]}".rpartition(",")[2]
        end += 1
    return end


def _find_end_of_command(lines: Sequence[str], at: int, width: int) -> int:
    """Return the index behind the last piece of a command, which goes on up to its format."""
    end = at + 1
    has_format = bool(_FORMAT.search(lines[at]))
    while _may_go_on(lines, at, end, width) and ", " not in lines[end] and "--query-" not in lines[end]:
        if has_format and not (_OPTION_END.fullmatch(lines[end]) or lines[end].lstrip().startswith("-")):
            break
        has_format = has_format or bool(_FORMAT.search(lines[end - 1][-_FORMAT_WORD:] + lines[end]))
        end += 1
    return end if has_format else at + 1


def _may_go_on(lines: Sequence[str], at: int, end: int, width: int) -> bool:
    """Return whether the line at `at`, whose pieces end before `end`, may go on: nothing more fits the width."""
    if end >= len(lines) or end - at >= _MOST_PIECES or not lines[end].strip():
        return False
    above = lines[end - 1]
    return width >= _LEAST_WIDTH and is_full(above, lines[end], width, len(above))


def _find_wrapped_rows(lines: Sequence[str], first: int, row: _CsvRow) -> tuple[list[tuple[int, int]], int]:
    """Return the pieces of each wrapped row, and the index behind the last row; the first wrapped one tells the
    width."""
    spans: list[tuple[int, int]] = []
    at = done = first
    others = 0
    while at < len(lines) and others <= (_PATIENCE if row.is_width else 0):
        if _begins_sheet(lines[at]):
            break
        end, commas = at + 1, lines[at].count(",")
        is_wrapped = row.is_cut(lines[at], commas, lines[end] if end < len(lines) else "")
        width = row.width if row.is_width else len(lines[at])
        while is_wrapped and _may_go_on(lines, at, end, width) and row.may_have(commas, lines[end], width):
            commas += lines[end].count(",")
            end += 1
        if commas < row.commas:
            others += bool(lines[at].strip()) or done > first
            at += 1
            continue
        if end > at + 1:
            spans.append((at, end))
            row = replace(row, width=width, is_width=True)
        at = done = end
        others = 0
    return spans, done

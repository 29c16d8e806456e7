"""Prepares pasted output of nvidia-smi and the tools that follow it: numbers lines, and joins wrapped rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from envcheck.core import tool_text as words
from probes.paste.line_decorations import clean_characters, strip_marks

TEXT_LIMIT, LINES_LIMIT = 4 << 20, 100_000  # four times the largest real answer: -q -x of 16 MIG cards has 30,000 lines
LINE_LIMIT = 16_384  # the CSV header with all 212 fields of driver 590 has 6,570 characters
WRAPS = 3  # pieces of a row of 91 columns that is wrapped at 30
_EDGE = re.compile(r"^(.{0,80}?)[+|](?:-{3,}|={3,})")
_SIGN = re.compile(r"[ \t]{0,80}[.+>*\u2026][ \t.+>*\u2026]{0,8}(?=\|)")  # before the left bar
_BARS = {"|", "+"}
# A line with a sign or blanks before its left bar, or a piece that may belong to the line above it.
_UNEVEN = re.compile(r"(?m)^(?:[^|+\n].*[|+][^\S\n]*$|[^\S\n]+[|+]|[ \t]{0,80}[.+>*\u2026][ \t.+>*\u2026]{0,8}\|)")
_EVEN = ("+-", "+=")  # beginnings of rules; these and rows are never uneven, and most lines
_VOID = {"not found", "gpu is lost", "unknown error", "requested functionality has been deprecated"}


@dataclass(frozen=True)
class SmiTool:
    """The names of one of the similar tools.

    `banner` matches the words before the version in the table's header, `management` the management library's name in
    error messages, `runtime` the words before the version of the runtime library.  `own_words` are patterns of the
    tool's words for what the formats call GPU, with their replacements; `program` matches the program's names, and
    `unit` is the tool's word for GPU in error messages.  `accepts_fragments`: a few fields of `-q`, or the first
    rows of a table, are devices too.
    """

    name: str
    banner: str
    management: str
    runtime: str = ""
    own_words: tuple[tuple[str, str], ...] = ()
    program: str = ""
    unit: str = "gpu"
    accepts_fragments: bool = False

    @property
    def program_pattern(self) -> str:
        """A pattern of the program's names."""
        return self.program or re.escape(self.name)


@dataclass(frozen=True)
class PastedOutput:
    """`raw` is the text up to the limit; `lines` are cleaned and without prefixes, `numbers` are theirs in the text."""

    tool: SmiTool
    raw: str
    lines: tuple[str, ...]
    numbers: tuple[int, ...]

    @cached_property
    def text(self) -> str:
        """The cleaned lines as one text."""
        return "\n".join(self.lines)

    @cached_property
    def lowercase_text(self) -> str:
        """The cleaned text in lower case."""
        return self.text.lower()


def clean_output(tool: SmiTool, raw: str) -> PastedOutput:
    """Return the cleaned lines. A mark such as '# ' or a time stamp is a prefix if most lines have the same."""
    raw = raw[:TEXT_LIMIT]
    lines, numbers = _number_lines(clean_characters(raw, LINE_LIMIT))
    return PastedOutput(tool, raw, tuple(strip_marks(lines)), numbers)


def share_words(tool: SmiTool, paste: PastedOutput) -> PastedOutput:
    """Return the output with the words that the formats have for the tool's own ones."""
    raw = _replace_words(tool, paste.raw) if "<" in paste.raw else paste.raw  # read as XML alone
    return PastedOutput(tool, raw, tuple(_replace_words(tool, paste.text).split("\n")), paste.numbers)


def _number_lines(text: str) -> tuple[list[str], tuple[int, ...]]:
    """Return the lines and their numbers from 1, of several empty lines only the first."""
    if "\n\n" not in text and text[:1] != "\n":
        lines = text.split("\n")[:LINES_LIMIT]
        return lines, tuple(range(1, len(lines) + 1))
    lines = ["", *text.split("\n")]
    kept = [at for at in range(1, len(lines)) if lines[at] or at == 1 or lines[at - 1]][:LINES_LIMIT]
    return [lines[at] for at in kept], tuple(kept)


def _replace_words(tool: SmiTool, text: str) -> str:
    text = f"\n{text}"
    for own, shared in tool.own_words:
        text = re.sub(own, shared, text)
    return text[1:]


@lru_cache(maxsize=4096)  # the tables of a watch log have many equal cells
def cell_value(cell: str | None) -> str | None:
    """Return the cell's text like `tool_text.cell_text`; None also for '[text in brackets]' and for error phrases."""
    value = words.cell_text(cell)
    if value is None or value.lower() in _VOID or (value[0] == "[" and value[-1] == "]"):
        return None
    return value


class TableLine(NamedTuple):
    """A line of a table from its left bar on; `at` is the index of the line, or of its first piece."""

    at: int
    text: str


def extract_table_lines(lines: Iterable[str]) -> list[TableLine]:
    """Return the table lines from their left bar on, with wrapped ones joined.

    The left edge may follow a log prefix, which can contain bars itself: 'web_1 | | NVIDIA-SMI ...'.
    """
    kept = list(lines)
    rules = (line for line in kept if "---" in line or "===" in line)
    edge = next((found[1] for found in map(_EDGE.match, rules) if found and found[1].strip(" -=+|")), "")
    suspects = [line for line in kept if line[:1] != "|" and line[:2] not in _EVEN]
    if not edge and not _UNEVEN.search("\n".join(suspects)):
        return [TableLine(at, line.strip()) for at, line in enumerate(kept) if line[:1] in _BARS]
    return _rejoin_rows([_cut_at_edge(line, edge) for line in kept])


def _cut_at_edge(line: str, edge: str) -> str:
    """Return the line from its left bar on, without the same edge as the rules, or a few signs: '. |', '+|', '> |'."""
    if edge and len(line) > len(edge) and line[len(edge)] in "|+":
        return line[len(edge) :]
    sign = _SIGN.match(line)
    return line[sign.end() :] if sign else line


def _rejoin_rows(lines: list[str]) -> list[TableLine]:
    """Return rows and borders only; a piece that ends with a bar but does not start with one belongs to the previous
    line."""
    if not any(_ends_with_bar(line) and not _starts_with_bar(line) for line in lines):
        return [TableLine(at, line.strip()) for at, line in enumerate(lines) if _starts_with_bar(line)]
    open_lengths = Counter(len(line) for line in lines if _starts_with_bar(line) and not _ends_with_bar(line))
    hard = max((n for n, count in open_lengths.items() if count > 1), default=-1)
    out: list[TableLine] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not _starts_with_bar(line):
            continue
        pieces = _count_pieces(lines, at) if at < len(lines) and not _starts_with_bar(lines[at]) else 0
        glue = "" if len(line) == hard else " "
        out.append(TableLine(at - 1, glue.join([line, *lines[at : at + pieces]]).strip()))
        at += pieces
    return out


def _count_pieces(lines: list[str], at: int) -> int:
    for count, line in enumerate(lines[at : at + WRAPS], 1):
        if not line.strip() or _starts_with_bar(line):
            return 0
        if _ends_with_bar(line):
            return count
    return 0


def _starts_with_bar(line: str) -> bool:
    return line.lstrip()[:1] in _BARS


def _ends_with_bar(line: str) -> bool:
    return line.rstrip()[-1:] in _BARS

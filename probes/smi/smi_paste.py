"""What somebody pasted of nvidia-smi or ixsmi, undressed: without log prefixes, and with wrapped rows joined again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from envcheck.core import text as words

SHARE = 0.6  # of the lines must carry a mark before it is taken for a prefix rather than for text
TEXT_LIMIT, LINES_LIMIT = 4 << 20, 100_000  # four times the largest real answer: -q -x of 16 MIG cards has 30,000 lines
LINE_LIMIT = 16_384  # the head of a CSV with all 212 fields of driver 590 has 6,570 characters
WRAPS = 3  # pieces into which a row of 91 columns falls when it is wrapped at 30
_STAMP = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d)?\]?"
_SERVICE = r"[\w.-]{1,40} {0,6}\|(?=[ \t])"  # what docker compose puts before each line
_MARK = re.compile(rf"[ \t]*(?:(?:#|//|;|>>|\*(?!\*)|\[[^\]\n]{{1,40}}\]|{_STAMP}|{_SERVICE})[ \t]{{0,3}}){{1,4}}")
_EDGE = re.compile(r"^(.{0,80}?)[+|](?:-{3,}|={3,})")
_BARS = {"|", "+"}
_VOID = {"not found", "gpu is lost", "unknown error", "requested functionality has been deprecated"}


@dataclass(frozen=True)
class Tool:
    """How one of the two look-alike tools names itself."""

    name: str
    banner: str  # pattern of the words before its version in the table's head
    management: str  # pattern of its management library's name in error sentences


@dataclass(frozen=True)
class Paste:
    """`raw` as given, up to the limit; `lines` of it cleaned and without prefixes."""

    tool: Tool
    raw: str
    lines: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        return "\n".join(self.lines)

    @cached_property
    def lowered(self) -> str:
        return self.text.lower()


def undress(tool: Tool, raw: str) -> Paste:
    """Cleaned lines.  A mark such as '# ' or a time stamp is a prefix when most lines carry the same."""
    raw = raw[:TEXT_LIMIT]
    lines = re.sub(r"\n{3,}", "\n\n", words.clean(raw, LINE_LIMIT)).split("\n", LINES_LIMIT)[:LINES_LIMIT]
    return Paste(tool, raw, tuple(_without_marks(lines)))


def said(cell: str | None) -> str | None:
    """As `text.said`; also None for '[anything in brackets]' and the sentences that stand where a value should."""
    value = words.said(cell)
    if value is None or value.lower() in _VOID or (value[0] == "[" and value[-1] == "]"):
        return None
    return value


def _without_marks(lines: list[str]) -> list[str]:
    full = [line for line in lines if line.strip()]
    if sum(map(_plain, full)) > (1 - SHARE) * len(full):
        return lines
    shapes = Counter(_shape(mark[0]) for line in full if (mark := _MARK.match(line)))
    shape = max(shapes, key=lambda one: (_carried(one, shapes), -len(one)), default="")
    if _carried(shape, shapes) < max(2, SHARE * len(full)):
        return lines
    words_of = (re.escape(word).replace("0", r"\d") for word in shape.split())
    prefix = re.compile(r"[ \t]*" + r"[ \t]*".join(words_of) + r"[ \t]?")
    return [prefix.sub("", line, count=1) if prefix.match(line) else line for line in lines]


def _plain(line: str) -> bool:
    """A row of a box, which no mark begins: a cheap look before the pattern."""
    return line[0] in "|+"


def _shape(mark: str) -> str:
    return " ".join(re.sub(r"\d", "0", mark).split())


def _carried(shape: str, shapes: Counter[str]) -> int:
    """How many lines begin so, those that go on with further marks included."""
    return sum(count for other, count in shapes.items() if shape and (other + " ").startswith(shape + " "))


def table_lines(lines: Iterable[str]) -> list[str]:
    """The lines of bar tables from their left bar on, wrapped ones joined.

    The left edge may stand behind a log's prefix, which may hold bars itself: 'web_1  | | NVIDIA-SMI ...'.
    """
    kept = list(lines)
    rules = (line for line in kept if "---" in line or "===" in line)
    edge = next((found[1] for found in map(_EDGE.match, rules) if found and found[1].strip(" -=+|")), "")
    return _rejoin([_from_edge(line, edge) for line in kept] if edge else kept)


def _from_edge(line: str, edge: str) -> str:
    if edge and len(line) > len(edge) and line[len(edge)] in "|+":
        return line[len(edge) :]
    return line


def _rejoin(lines: list[str]) -> list[str]:
    """Rows and borders only; a piece that ends in a bar without beginning with one belongs to the line before."""
    if not any(_ends(line) and not _starts(line) for line in lines):
        return [line.strip() for line in lines if _starts(line)]
    open_lengths = Counter(len(line) for line in lines if _starts(line) and not _ends(line))
    hard = max((n for n, count in open_lengths.items() if count > 1), default=-1)
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not _starts(line):
            continue
        pieces = _pieces(lines, at) if at < len(lines) and not _starts(lines[at]) else 0
        glue = "" if len(line) == hard else " "
        out.append(glue.join([line, *lines[at : at + pieces]]).strip())
        at += pieces
    return out


def _pieces(lines: list[str], at: int) -> int:
    for count, line in enumerate(lines[at : at + WRAPS], 1):
        if not line.strip() or _starts(line):
            return 0
        if _ends(line):
            return count
    return 0


def _starts(line: str) -> bool:
    return line.lstrip()[:1] in _BARS


def _ends(line: str) -> bool:
    return line.rstrip()[-1:] in _BARS

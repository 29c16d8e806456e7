"""What one log says, or a piece of it; pieces of one log are joined into what one reading of it would have found; pure.

What is kept of a line that an entry knows does not depend on what was read before it, so that a log may be read in
pieces side by side.  Two things do.  Floods of unknown lines: of more than ODD kinds each piece keeps its own first and
last, and is patient anew with those that were looked at in vain, so that other ones may be told.  And of lines that
differ in figures only, codes apart, the first of a piece speaks for the others, as the first of a log does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

from envcheck.explain.kinds import kind
from envcheck.explain.model import Evidence, Raised
from envcheck.explain.text import readable

SHOWN = 3  # first lines of each entry that are kept, no two alike but for figures
ODD = 150  # unknown lines of alarm that are kept, at the beginning and at the end
TAIL, LAST, WIDTH = 1 << 15, 24, 2048  # bytes at the end of a log, lines of them that are kept, and bytes of each
BUFFER = 1 << 13  # bytes of steps that a process may hold back until it ends, and which then stand behind its error
Line = TypeVar("Line", Evidence, Raised)
_STEP = re.compile(rb"\bloss['\"]?\s?[:=]\s?['\"]?\d|\btrain_runtime\b")


@dataclass(frozen=True)
class Shown:
    """A line of an entry.  `kind` is the same for lines that differ in figures only; `groups` is what it named."""

    kind: int
    line: Evidence
    groups: Mapping[str, str]


@dataclass
class Hit:
    """Lines of one entry in one log."""

    count: int = 0
    mild: bool = True  # said at the level of a warning, each time
    last: int = 0  # line
    shown: list[Shown] = field(default_factory=list)

    @property
    def first(self) -> list[Evidence]:
        return [one.line for one in self.shown]

    @property
    def groups(self) -> Mapping[str, str]:
        return next((one.groups for one in self.shown if one.groups), {})

    def show(self, some: Iterable[Shown]) -> None:
        for one in some:
            if len(self.shown) < SHOWN and all(one.kind != other.kind for other in self.shown):
                self.shown.append(one)


@dataclass
class Found:
    """`time` is that of the last traceback's head, `end` the last TAIL bytes; what `finished` makes of them stands in
    `odd`, `tail` and `trains`."""

    name: str
    lines: int = 0  # that have an end
    size: int = 0
    hits: dict[str, Hit] = field(default_factory=dict)
    raised: list[Raised] = field(default_factory=list)  # the first and the last
    odd_first: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # by kind: number and line of alarm
    odd_last: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=ODD))
    odd_seen: Counter[bytes] = field(default_factory=Counter)
    odd: list[Evidence] = field(default_factory=list)
    tail: list[Evidence] = field(default_factory=list)
    time: float | None = None
    end: bytes = b""
    read: int = 0  # lines, with the last one where no end of line follows it
    trains: int = 0  # where the last TAIL bytes begin, if a training goes on there: nothing before ended it

    def finished(self) -> Found:
        """Of a log that was read to its end."""
        odd = dict(self.odd_first)
        for number, line in self.odd_last:
            odd.setdefault(kind(line), (number, line))
        self.odd = [Evidence(self.name, number, readable(line)) for number, line in odd.values()]
        self.tail = _tail(self)
        self.read = self.lines + bool(self.end and not self.end.endswith(b"\n"))
        steps = [line for line in self.end.split(b"\n") if _STEP.search(line)]
        if self.size > TAIL and sum(map(len, steps)) > BUFFER:
            self.trains = self.lines + 1 - self.end.count(b"\n")
        self.odd_first, self.end = {}, b""
        self.odd_last.clear()
        return _dated(self)


def joined(pieces: Iterable[Found]) -> Found:
    """Of pieces in their order, each with lines counted from its own beginning."""
    return reduce(_with, pieces)


def _with(a: Found, b: Found) -> Found:
    """`a`, and what follows it at once."""
    for name, hit in b.hits.items():
        mine = a.hits.setdefault(name, Hit())
        mine.count, mine.mild, mine.last = mine.count + hit.count, mine.mild and hit.mild, hit.last + a.lines
        mine.show(replace(one, line=_after(a, one.line)) for one in hit.shown)
    a.raised = [*a.raised, *(_after(a, one) for one in b.raised)]
    a.raised = [*a.raised[:1], *a.raised[1:][-1:]]
    for of, (number, line) in b.odd_first.items():
        if len(a.odd_first) < ODD:
            a.odd_first.setdefault(of, (number + a.lines, line))
    a.odd_last.extend((number + a.lines, line) for number, line in b.odd_last)
    a.odd_seen += b.odd_seen
    a.time = b.time if b.time is not None else a.time
    a.lines, a.size, a.end = a.lines + b.lines, a.size + b.size, (a.end + b.end)[-TAIL:]
    return a


def _after(a: Found, one: Line) -> Line:
    """A line of the next piece; without a time near it, it has that of the last traceback's head."""
    return replace(one, line=one.line + a.lines, time=a.time if one.time is None else one.time)


def _tail(found: Found) -> list[Evidence]:
    """The last lines that are not empty."""
    lines = found.end.split(b"\n")
    first = found.lines + 1 - (len(lines) - 1)
    said = [(max(1, first + at), line) for at, line in enumerate(lines) if line.strip()]
    return [Evidence(found.name, number, readable(line[:WIDTH])) for number, line in said[-LAST:]]


def _dated(found: Found) -> Found:
    """What has no time yet has that of what is told of the log and stands before it."""
    told: list[Evidence | Raised] = [*found.raised, *(line for hit in found.hits.values() for line in hit.first)]
    clock = sorted((one.line, one.time) for one in told if one.time is not None)

    def dated(one: Line) -> Line:
        at = bisect_left(clock, (one.line, 0.0))
        return replace(one, time=clock[at - 1][1]) if one.time is None and at else one

    for hit in found.hits.values():
        hit.shown = [replace(one, line=dated(one.line)) for one in hit.shown]
    found.raised = [dated(one) for one in found.raised]
    return found

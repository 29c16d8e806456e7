"""One log, in constant memory: each line that may say something goes once to the catalogue."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from launch.diagnose import times
from launch.diagnose.exceptions import Reader
from launch.diagnose.gists import Gists
from launch.diagnose.index import Index
from launch.diagnose.model import Evidence, Raised
from launch.diagnose.text import readable
from launch.diagnose.triggers import DIGITS, hot

# Lines (without digits) that were found dull or looked at, and their bytes; then they are forgotten and begun anew.
KNOWN, ROOM = 100_000, 16 << 20
WINDOW = 2048  # bytes of a long line around what was found
AROUND = 12  # lines before and after, in which `needs` is sought
PATIENCE = 200  # lines of the same known words that are looked at before the rest are taken to be like them
ALIKE, GIST = 20_000, 512  # gists of such lines that are remembered, and bytes of one
FLOOD = 0.25  # of new lines that alarm: then their gists are asked for first, which cost less than the lines
MANY = 0.06  # of a block's lines: as many new ones of alarm are asked together whether any entry may know them
ZEROS = bytes.maketrans(DIGITS, b"0" * 10)
TAIL = 1 << 15  # bytes
ODD, ODD_WIDTH = 150, 600  # unknown lines of alarm that are kept, at the beginning and at the end, and bytes of each
SHOWN = 3  # first lines of each entry that are kept
# Figures that tell two lines apart: codes of CANN, CUDA, DCMI, exit statuses.  All others do not.
_CODES = re.compile(
    rb"(?<![A-Za-z0-9])(?:E[A-Z1-9]\d{4}|ERR\d{5}|[1-5]\d{5}|-8\d{3})(?!\d)"
    rb"|(?i:(?:code|status|signal|error|xid|ret|errno)[^\d\n]{1,16}-?\d{1,6})"
)

# A line that calls itself a warning is no cause; NCCL calls its errors so.
_MILD = re.compile(
    r"^(?!.{0,120}NCCL WARN).{0,160}?(?:\bWARN(?:ING)?\b|\w{0,40}Warning: |(?:^|[\s:])\[?W\d{4} |\[W(?:\d{3,4})? )"
)


@dataclass
class Hit:
    """Lines of one entry in one log."""

    count: int = 0
    mild: bool = True  # said at the level of a warning, each time
    first: list[Evidence] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)


@dataclass
class _Seen:
    """Lines that differ in figures only: what the first was of, and others whose codes differ from its."""

    line: bytes
    names: tuple[str, ...] = ()
    others: dict[bytes, tuple[str, ...]] = field(default_factory=dict)

    def of(self, line: bytes) -> tuple[str, ...] | None:
        """None for codes that were not seen yet."""
        codes = _codes(line)
        if codes in self.others:
            return self.others[codes]
        return self.names if codes == _codes(self.line) else None


def _codes(line: bytes) -> bytes:
    return b" ".join(_CODES.findall(line[:WINDOW])[:8])


@dataclass
class Scan:
    """What one log says, as far as it was read."""

    name: str
    index: Index
    every: bool = False  # look at each line: where there are few
    lines: int = 0
    size: int = 0
    hits: dict[str, Hit] = field(default_factory=dict)
    raised: list[Raised] = field(default_factory=list)
    odd: list[Evidence] = field(default_factory=list)  # lines with a word of alarm that no entry knows
    odd_seen: Counter[bytes] = field(default_factory=Counter)
    tail: deque[Evidence] = field(default_factory=lambda: deque(maxlen=24))
    _dull: set[bytes] = field(default_factory=set)
    _hot: set[bytes] = field(default_factory=set)
    _held: int = 0
    _told: dict[bytes, _Seen] = field(default_factory=dict)
    _odd_last: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=ODD))
    _vain: Counter[int] = field(default_factory=Counter)  # hashes of words of lines that were looked at for nothing
    _alike: set[bytes] = field(default_factory=set)  # gists of such words: nothing more is done for lines of these
    _gist_of: dict[bytes, bytes] = field(default_factory=dict)  # of the block that is read
    _flood: bool = False
    _reader: Reader = field(default_factory=Reader)
    _time: float | None = None
    _end: bytes = b""

    def __post_init__(self) -> None:
        self._gists = Gists(self.index.words)

    @property
    def read(self) -> int:
        """Lines, with the last one where no end of line follows it."""
        return self.lines + bool(self._end and not self._end.endswith(b"\n"))

    def feed(self, block: bytes) -> None:
        """Whole lines, or a piece of a very long one."""
        self.size += len(block)
        keys = block.translate(None, DIGITS).split(b"\n")
        distinct = set(keys)
        new = distinct - self._dull - self._hot
        self._held += sum(map(len, new))
        if len(self._dull) + len(self._hot) + len(new) > KNOWN or self._held > ROOM:
            self._forget()
            new = distinct
            self._held = sum(map(len, new))
        found, dull = (new, set()) if self.every else self._sorted(block, keys, new)
        self._hot |= found
        self._dull |= dull
        if self._reader.open or not distinct.isdisjoint(self._hot):
            self._look(block.split(b"\n"), keys)
        self.lines += len(keys) - 1
        self._end = block[-TAIL:] if len(block) >= TAIL else (self._end + block)[-TAIL:]

    def _sorted(self, block: bytes, keys: list[bytes], new: set[bytes]) -> tuple[set[bytes], set[bytes]]:
        """What was not seen before: what to look at, and what is dull.  In a flood nearly all is neither."""
        fresh, quiet = (list(new), set[bytes]()) if self._flood else self._loud(block, keys, hot(new))
        gists = self._gists.of(fresh)
        kinds = set(gists)
        alike = self._alike & kinds
        if self._flood and alike and len(alike) == len(kinds):
            self._pass_over(block, keys, new)
            return set(), set()
        self._gist_of = dict(zip(fresh, gists, strict=True))
        passed = {key for key, gist in self._gist_of.items() if gist in alike} if alike else set()
        if passed:
            fresh = [key for key in fresh if key not in passed]
        if self._flood:
            fresh, quiet = self._loud(block, keys, hot(fresh))
        found = set(fresh)
        if passed or quiet:
            self._pass_over(block, keys, passed | quiet)
        self._flood = len(passed) + len(found) > FLOOD * len(new)
        return found, new - found - passed

    def _loud(self, block: bytes, keys: list[bytes], some: list[bytes]) -> tuple[list[bytes], set[bytes]]:
        """Which of some to look at, and those of no entry where they are so many that a step for each is too much."""
        if len(self.odd) < ODD or len(some) < MANY * len(keys):
            return some, set()
        asked = set(some)
        lines = [line for line, key in zip(block.translate(ZEROS).split(b"\n"), keys, strict=True) if key in asked]
        possible = {line.translate(None, DIGITS) for line in self.index.possible(lines)}
        return [key for key in some if key in possible], asked - possible

    def _pass_over(self, block: bytes, keys: list[bytes], passed: set[bytes]) -> None:
        """Lines like many that no entry knew: the last of them are kept."""
        places = list(islice((at for at in range(len(keys) - 1, -1, -1) if keys[at] in passed), ODD))
        lines = block.rsplit(b"\n", len(keys) - places[-1])
        self._odd_last += [(self.lines + at + 1, lines[at - len(keys)][:ODD_WIDTH]) for at in reversed(places)]

    def _forget(self) -> None:
        self.odd_seen = Counter(dict(self.odd_seen.most_common(ODD)))
        self._dull.clear()
        self._hot.clear()
        self._told.clear()

    def _look(self, lines: list[bytes], keys: list[bytes]) -> None:
        for at, key in enumerate(keys):
            if self._reader.open:
                self._read(self._reader.line(lines[at]))
            if key in self._hot:
                self._line(lines, at, key)

    def _read(self, raised: Raised | None) -> None:
        if raised is None:
            return
        if len(self.raised) > 1:
            self.raised.pop()  # the first and the last are told
        self.raised.append(raised)

    def _line(self, lines: list[bytes], at: int, key: bytes) -> None:
        line = lines[at]
        number = self.lines + at + 1
        if b"Traceback (most recent call last)" in line:
            self._reader.begin(line, self.name, number, self._when(lines, at))
        seen = self._told.get(key)
        if seen is None:
            seen = self._told[key] = _Seen(line if len(line) < WINDOW // 4 else line[:WINDOW])
            seen.names = self._first(lines, at, number, key)
            return
        names = seen.of(line)
        if names is None:
            seen.others[_codes(line)] = self._first(lines, at, number, key)
            return
        for name in names:
            self.hits[name].count += 1
        if not names:
            self.odd_seen[key] += 1

    def _first(self, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        """A line that was not seen before, but for its figures."""
        names: list[str] = []
        gist = self._gist_of[key] if key in self._gist_of else self._gists.of([key])[0]
        words = hash(frozenset(gist.split()))
        if self._vain[words] > PATIENCE:
            self._give_up(key, gist)
            self._odd_last.append((number, lines[at][:ODD_WIDTH]))
            return ()
        for piece in _pieces(lines[at]):
            text = readable(piece)
            around = self._around(lines, at)
            for entry, groups in self.index.of(text, around):
                names.append(entry.name)
                hit = self.hits.setdefault(entry.name, Hit())
                hit.count += 1
                hit.mild = hit.mild and bool(_MILD.search(text))
                if len(hit.first) < SHOWN:
                    hit.first.append(Evidence(self.name, number, text, self._when(lines, at)))
                    hit.groups = hit.groups or groups
        if len(self._vain) > KNOWN // 2:
            self._vain.clear()
        self._vain[words] = -(1 << 40) if names else self._vain[words] + 1
        if not names:
            self._odd_last.append((number, lines[at][:ODD_WIDTH]))
            self.odd_seen[key] += 1
            if len(self.odd) < ODD:
                self.odd.append(Evidence(self.name, number, readable(lines[at][:ODD_WIDTH])))
        return tuple(dict.fromkeys(names))

    def _give_up(self, key: bytes, gist: bytes) -> None:
        """The next lines of this gist are passed over; this one need not be known again."""
        if gist.strip() and len(gist) <= GIST and b"Traceback" not in key:
            if len(self._alike) > ALIKE:
                self._alike.clear()
            self._alike.add(gist)
            self._hot.discard(key)

    def _around(self, lines: list[bytes], at: int) -> Callable[[], str]:
        return lambda: "\n".join(readable(line[:400]) for line in lines[max(0, at - AROUND) : at + AROUND + 1])

    def _when(self, lines: list[bytes], at: int) -> float | None:
        """Of the line, else of the nearest before it."""
        for line in lines[max(0, at - 40) : at + 1][::-1]:
            if (when := times.of(line[:400].decode("utf-8", "replace"))) is not None:
                self._time = when
                break
        return self._time

    def end(self) -> None:
        """The last lines, and the exception that the end cut off."""
        self._read(self._reader.close())
        self._forget()  # a folder may have a log for each of hundreds of ranks
        self._vain.clear()
        known = {line.line for line in self.odd}
        self.odd += [Evidence(self.name, at, readable(raw)) for at, raw in self._odd_last if at not in known]
        self._gists = Gists(())
        self._alike.clear()
        self._gist_of.clear()
        last = self._end.split(b"\n")
        first = self.lines + 1 - (len(last) - 1)
        for at, line in enumerate(last):
            if line.strip():
                self.tail.append(Evidence(self.name, max(1, first + at), readable(line[:WINDOW])))


def _pieces(line: bytes) -> Iterable[bytes]:
    """A line in pieces that patterns are cheap on; what a progress bar wrote over is a line of its own."""
    if len(line) <= WINDOW and b"\r" not in line:
        return (line,)
    alike = {part.translate(None, DIGITS): part for part in line.split(b"\r") if part}  # of each kind the last
    parts = list(alike.values())
    return [
        part[start : start + WINDOW]
        for part in parts[-64:]
        for start in range(0, min(len(part), 1 << 16), WINDOW - 256)
    ]


def scan(name: str, blocks: Iterable[bytes], index: Index, every: bool = False) -> Scan:
    """All of it."""
    one = Scan(name, index, every)
    for block in blocks:
        one.feed(block)
    one.end()
    return one

"""One log, in constant memory: each line that may say something goes once to the catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from envcheck.explain import times
from envcheck.explain.dedup import ALIKE, PATIENCE, Fared, Gists
from envcheck.explain.exceptions import Reader
from envcheck.explain.found import ODD, SHOWN, TAIL, Found, Hit, Shown
from envcheck.explain.index import Index
from envcheck.explain.kinds import WINDOW, codes, kind
from envcheck.explain.log_level import is_mild
from envcheck.explain.model import Evidence, Raised
from envcheck.explain.prefilter import DIGITS, select_lines
from envcheck.explain.text import readable

# Lines (without digits) that were found dull or looked at, and their bytes; then they are forgotten and begun anew.
KNOWN, ROOM = 100_000, 16 << 20
AROUND = 12  # lines before and after, in which `needs` is sought
GIST = 512  # bytes of a gist that is remembered
FLOOD = 0.25  # of new lines that alarm: then their gists are asked for first, which cost less than the lines
MANY = 0.06  # of a block's lines: as many new ones of alarm are asked together whether any entry may know them
ZEROS = bytes.maketrans(DIGITS, b"0" * 10)
ODD_WIDTH = 600  # bytes of an unknown line of alarm that are kept
HEAD = b"Traceback (most recent call last)"


@dataclass
class _Seen:
    """Lines that differ in figures only: what the first was of, and others whose codes differ from its."""

    line: bytes
    names: tuple[str, ...] = ()
    others: dict[bytes, tuple[str, ...]] = field(default_factory=dict)

    def of(self, line: bytes) -> tuple[str, ...] | None:
        """None for codes that were not seen yet."""
        its = codes(line)
        if its in self.others:
            return self.others[its]
        return self.names if its == codes(self.line) else None


@dataclass
class Scan:
    """What is remembered of a log while it is read, besides what is found."""

    name: str
    index: Index
    every: bool = False  # look at each line: where there are few
    _dull: set[bytes] = field(default_factory=set)
    _hot: set[bytes] = field(default_factory=set)
    _held: int = 0
    _told: dict[bytes, _Seen] = field(default_factory=dict)
    _vain: Counter[int] = field(default_factory=Counter)  # hashes of words of lines that were looked at for nothing
    _alike: set[bytes] = field(default_factory=set)  # gists of such words: nothing more is done for lines of these
    _gist_of: dict[bytes, bytes] = field(default_factory=dict)  # of the block that is read
    _fared: Fared = field(default_factory=Fared)
    _flood: bool = False
    _alarm: bool = False  # so many of the last block's lines
    _reader: Reader = field(default_factory=Reader)

    def __post_init__(self) -> None:
        self.found = Found(self.name)
        self._gists = Gists(self.index.words)

    def feed(self, block: bytes) -> None:
        """Whole lines, or a piece of a very long one."""
        keys = block.translate(None, DIGITS).split(b"\n")
        distinct = set(keys)
        new = distinct - self._dull - self._hot
        self._held += sum(map(len, new))
        if len(self._dull) + len(self._hot) + len(new) > KNOWN or self._held > ROOM:
            self._forget()
            new = distinct
            self._held = sum(map(len, new))
        hot, dull = (new, set()) if self.every else self._sorted(block, keys, new)
        self._hot |= hot
        self._dull |= dull
        if self._reader.open or not distinct.isdisjoint(self._hot):
            self._look(block.split(b"\n"), keys)
        found = self.found
        found.size += len(block)
        found.lines += len(keys) - 1
        found.end = block[-TAIL:] if len(block) >= TAIL else (found.end + block)[-TAIL:]

    def _sorted(self, block: bytes, keys: list[bytes], new: set[bytes]) -> tuple[set[bytes], set[bytes]]:
        """What was not seen before: what to look at, and what is dull.  In a flood nearly all is neither."""
        if self._flood:
            fresh, quiet = list(new), set[bytes]()
        else:
            fresh, quiet = (
                self._alarmed(block, keys, new) if self._alarm else self._loud(block, keys, select_lines(new))
            )
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
            fresh, quiet = self._loud(block, keys, select_lines(fresh))
        found = set(fresh)
        if passed or quiet:
            self._pass_over(block, keys, passed | quiet)
        self._flood = len(passed) + len(found) > FLOOD * len(new)
        return found, new - found - passed

    def _loud(self, block: bytes, keys: list[bytes], some: list[bytes]) -> tuple[list[bytes], set[bytes]]:
        """Which of some to look at, and those of no entry where they are so many that a step for each is too much."""
        self._alarm = len(self.found.odd_first) >= ODD and len(some) >= MANY * len(keys)
        if not self._alarm:
            return some, set()
        asked = set(some)
        possible = self._possible(block, keys, asked)
        return [key for key in some if key in possible], asked - possible

    def _alarmed(self, block: bytes, keys: list[bytes], new: set[bytes]) -> tuple[list[bytes], set[bytes]]:
        """The same, after a block of so many: first those that an entry may know; of the others the last of alarm."""
        possible = self._possible(block, keys, new)
        quiet, last = new - possible, list[bytes]()
        for at in range(len(keys), 0, -2 * ODD):
            last += select_lines(key for key in keys[max(0, at - 2 * ODD) : at] if key in quiet)
            if len(last) >= ODD:
                break
        self._alarm = len(last) >= ODD
        return select_lines(possible), set(last)

    def _possible(self, block: bytes, keys: list[bytes], asked: set[bytes]) -> set[bytes]:
        """Those that an entry may know."""
        lines = [line for line, key in zip(block.translate(ZEROS).split(b"\n"), keys, strict=True) if key in asked]
        return {line.translate(None, DIGITS) for line in self.index.possible(lines)}

    def _pass_over(self, block: bytes, keys: list[bytes], passed: set[bytes]) -> None:
        """Lines like many that no entry knew: the last of them are kept."""
        places = list(islice((at for at in range(len(keys) - 1, -1, -1) if keys[at] in passed), ODD))
        lines = block.rsplit(b"\n", len(keys) - places[-1])
        before = self.found.lines + 1
        self.found.odd_last += [(before + at, lines[at - len(keys)][:ODD_WIDTH]) for at in reversed(places)]

    def _forget(self) -> None:
        seen = Counter({key: n for key, n in self.found.odd_seen.items() if len(key) < WINDOW})  # so long is none told
        self.found.odd_seen = Counter(dict(seen.most_common(ODD)))
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
        self.found.raised = [*self.found.raised[:1], raised]  # the first and the last are told

    def _line(self, lines: list[bytes], at: int, key: bytes) -> None:
        line = lines[at]
        number = self.found.lines + at + 1
        if HEAD in line:
            self.found.time = self._when(lines, at)
            self._reader.begin(line, self.name, number, self.found.time)
        seen = self._told.get(key)
        if seen is None:
            seen = self._told[key] = _Seen(line if len(line) < WINDOW // 4 else line[:WINDOW])
            seen.names = self._first(lines, at, number, key)
            return
        names = seen.of(line)
        if names is None:
            seen.others[codes(line)] = self._first(lines, at, number, key)
            return
        self._count(names, number)
        if not names:
            self.found.odd_seen[key] += 1

    def _count(self, names: Iterable[str], number: int) -> None:
        for name in names:
            hit = self.found.hits[name]
            hit.count, hit.last = hit.count + 1, number

    def _first(self, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        """A line that was not seen before, but for its figures."""
        gist = self._gist_of[key] if key in self._gist_of else self._gists.of([key])[0]
        words = hash(frozenset(gist.split()))
        if self._vain[words] > PATIENCE:
            self._give_up(key, gist)
            self.found.odd_last.append((number, lines[at][:ODD_WIDTH]))
            return ()
        names = self._of(lines, at, number, gist)
        self._count(names, number)
        if len(self._vain) > KNOWN // 2:
            self._vain.clear()
        self._vain[words] = -(1 << 40) if names else self._vain[words] + 1
        if not names:
            self._odd(number, lines[at][:ODD_WIDTH], key)
        return names

    def _of(self, lines: list[bytes], at: int, number: int, gist: bytes) -> tuple[str, ...]:
        """The entries that the line is of; of very many alike that have no figures not each is looked at."""
        line = lines[at]
        alike = hash((gist, self.index.traits(line))) if _is_plain(line) else None
        names = self._fared.sure(alike)
        if names and not any(self.found.hits[name].mild for name in names):
            return names
        names = tuple(dict.fromkeys(self._hits(lines, at, number)))
        self._fared.note(alike, names)
        return names

    def _hits(self, lines: list[bytes], at: int, number: int) -> Iterator[str]:
        """The entries that the line is of, which are noted."""
        for piece in _pieces(lines[at]):
            text = readable(piece)
            for entry, groups in self.index.of(text, self._around(lines, at)):
                hit = self.found.hits.setdefault(entry.name, Hit())
                hit.mild = hit.mild and is_mild(text)
                if len(hit.shown) < SHOWN:
                    line = Evidence(self.name, number, text, self._when(lines, at))
                    hit.show([Shown(kind(lines[at]), line, groups)])
                yield entry.name

    def _odd(self, number: int, line: bytes, key: bytes) -> None:
        self.found.odd_last.append((number, line))
        self.found.odd_seen[key] += 1
        if len(self.found.odd_first) < ODD:
            self.found.odd_first.setdefault(kind(line), (number, line))

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
        """Of the line, else of the nearest before it, else of the last traceback's head."""
        for line in lines[max(0, at - 40) : at + 1][::-1]:
            if (when := times.of(line[:400].decode("utf-8", "replace"))) is not None:
                return when
        return self.found.time

    def end(self, after: Iterable[bytes] = ()) -> Found:
        """What was found; `after` are the blocks after this piece of the log, into which an exception may reach."""
        self._read_on(line for block in after for line in block.split(b"\n"))
        self._read(self._reader.close())
        self._forget()
        return self.found

    def _read_on(self, lines: Iterator[bytes]) -> None:
        while self._reader.open and (line := next(lines, None)) is not None:
            self._read(self._reader.line(line))
            if HEAD in line:  # another one, which is of the next piece
                self._reader.open = False


def _is_plain(line: bytes) -> bool:
    return (
        len(line) <= WINDOW and line.isascii() and b"\r" not in line and len(line.translate(None, DIGITS)) == len(line)
    )


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


def scan(name: str, blocks: Iterable[bytes], index: Index, every: bool = False) -> Found:
    """All of it."""
    one = Scan(name, index, every)
    for block in blocks:
        one.feed(block)
    return one.end().finished()

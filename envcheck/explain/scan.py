"""Scan one log in constant memory: each line that may matter is matched against the catalogue once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from envcheck.explain import timestamps
from envcheck.explain.dedup import MAX_GISTS, MAX_LOOKS, KnownOutcomes, LineGists
from envcheck.explain.diagnosis import Evidence, RaisedException
from envcheck.explain.exceptions.frames import is_template
from envcheck.explain.index import EntryIndex, read_surroundings
from envcheck.explain.line_kind import WINDOW, compute_kind, extract_codes
from envcheck.explain.log_findings import (
    CLEANUP_LINES,
    HEAD,
    ODD,
    SHOWN,
    TAIL,
    EntryHits,
    LogFindings,
    MatchedLine,
    ends_cleanup,
    is_ignored,
)
from envcheck.explain.log_level import ANSWERED, is_mild, is_note, is_refusal
from envcheck.explain.log_text import sanitize_line
from envcheck.explain.prefilter import DIGITS, select_lines
from envcheck.explain.processes.line_prefix import find_own_text
from envcheck.explain.processes.pods import list_recoveries, list_sections
from envcheck.explain.processes.printed_data import SampleReader, is_boxed
from envcheck.explain.processes.progress import feed_progress
from envcheck.explain.processes.rank_names import drop_prefix_rank, find_prefix_rank, find_prefix_unit
from envcheck.explain.tracebacks import TracebackReader

# Known lines (without digits), and their bytes, after which they are discarded.
KNOWN, ROOM = 100_000, 16 << 20
AROUND = 12  # lines before and after that are searched for `needs`
GIST = 512  # bytes of a gist that is remembered
FLOOD = 0.25  # new alarming lines: from this number on, their cheaper gists are checked first
MANY = 0.06  # share of a block's lines: so many new alarming ones are checked in one search
ZEROS = bytes.maketrans(DIGITS, b"0" * 10)
ODD_WIDTH = 600  # bytes of an unknown alarming line that are kept
TRACEBACKS = 5_000  # that are read one by one; of more, the last one as well
_ERROR_LEVEL = re.compile(rb"\b(?:ERROR|CRITICAL|FATAL|EXCEPTION)\b")
READERS = 64  # tracebacks of several ranks that are open at once


@dataclass
class _SeenLine:
    """Lines that differ only in figures: the entries of the first, and of others whose codes differ from its codes."""

    line: bytes
    names: tuple[str, ...] = ()
    others: dict[bytes, tuple[str, ...]] = field(default_factory=dict)

    def find_entries(self, line: bytes) -> tuple[str, ...] | None:
        """Return the entries; None for codes that were not seen before."""
        if line == self.line:
            return self.names
        its = extract_codes(line)
        if its in self.others:
            return self.others[its]
        return self.names if its == extract_codes(self.line) else None


@dataclass
class LogScanner:
    """The state of a scan, in addition to its findings."""

    name: str
    index: EntryIndex
    every: bool = False  # examine each line, if there are few
    _dull: set[bytes] = field(default_factory=set)
    _hot: set[bytes] = field(default_factory=set)
    _held: int = 0
    _told: dict[bytes, _SeenLine] = field(default_factory=dict)
    _vain: Counter[int] = field(default_factory=Counter)  # word hashes of lines that were examined without a match
    _alike: set[bytes] = field(default_factory=set)  # gists of such lines, which are skipped
    _gist_of: dict[bytes, bytes] = field(default_factory=dict)  # of the current block
    _fared: KnownOutcomes = field(default_factory=KnownOutcomes)
    _flood: bool = False
    _alarm: bool = False  # number of the last block's lines
    # Of open tracebacks, by rank and pod.
    _readers: dict[tuple[int | None, str], TracebackReader] = field(default_factory=dict)
    _tracebacks: int = 0
    _samples: SampleReader = field(default_factory=lambda: SampleReader(()))  # of the current block

    def __post_init__(self) -> None:
        self.found = LogFindings(self.name)
        self._gists = LineGists(self.index.words)

    def feed_block(self, block: bytes) -> None:
        """Scan whole lines, or a part of a very long one."""
        keys = block.translate(None, DIGITS).split(b"\n")
        distinct = set(keys)
        new = distinct - self._dull - self._hot
        self._held += sum(map(len, new))
        if len(self._dull) + len(self._hot) + len(new) > KNOWN or self._held > ROOM:
            self._forget_keys()
            new = distinct
            self._held = sum(map(len, new))
        hot, dull = (new, set()) if self.every else self._sort_new_keys(block, keys, new)
        self._hot |= hot
        self._dull |= dull
        found = self.found
        feed_progress(found.progress, block, found.lines)
        found.add_sections(list_sections(block, found.lines))
        found.add_recoveries(list_recoveries(block, found.lines))
        if self._readers or not distinct.isdisjoint(self._hot):
            self._look_at_lines(block.split(b"\n"), keys)
        if len(found.begin) < TAIL:
            found.begin = (found.begin + block)[:TAIL]
        found.size += len(block)
        found.lines += len(keys) - 1
        found.end = block[-TAIL:] if len(block) >= TAIL else (found.end + block)[-TAIL:]

    def _sort_new_keys(self, block: bytes, keys: list[bytes], new: set[bytes]) -> tuple[set[bytes], set[bytes]]:
        """Split new lines into those to examine and those without interest.  In a flood, nearly all are neither."""
        if self._flood:
            fresh, quiet = list(new), set[bytes]()
        else:
            fresh, quiet = (
                self._select_after_alarm(block, keys, new)
                if self._alarm
                else self._select_alarming(block, keys, select_lines(new))
            )
        gists = self._gists.extract_gists(fresh)
        kinds = set(gists)
        alike = self._alike & kinds
        if self._flood and alike and len(alike) == len(kinds):
            self._skip_lines(block, keys, new)
            return set(), set()
        self._gist_of = dict(zip(fresh, gists, strict=True))
        passed = {key for key, gist in self._gist_of.items() if gist in alike} if alike else set()
        if passed:
            fresh = [key for key in fresh if key not in passed]
        if self._flood:
            fresh, quiet = self._select_alarming(block, keys, select_lines(fresh))
        found = set(fresh)
        if passed or quiet:
            self._skip_lines(block, keys, passed | quiet)
        self._flood = len(passed) + len(found) > FLOOD * len(new)
        return found, new - found - passed

    def _select_alarming(self, block: bytes, keys: list[bytes], some: list[bytes]) -> tuple[list[bytes], set[bytes]]:
        """Choose which lines to examine, and which unknown ones to skip because there are too many for single steps."""
        self._alarm = len(self.found.odd_first) >= ODD and len(some) >= MANY * len(keys)
        if not self._alarm:
            return some, set()
        asked = set(some)
        possible = self._find_possible_keys(block, keys, asked)
        return [key for key in some if key in possible], asked - possible

    def _select_after_alarm(self, block: bytes, keys: list[bytes], new: set[bytes]) -> tuple[list[bytes], set[bytes]]:
        """As before, after a block with so many: first those that an entry may match; of the others the last alarming
        ones.
        """
        possible = self._find_possible_keys(block, keys, new)
        quiet, last = new - possible, list[bytes]()
        for at in range(len(keys), 0, -2 * ODD):
            last += select_lines(key for key in keys[max(0, at - 2 * ODD) : at] if key in quiet)
            if len(last) >= ODD:
                break
        self._alarm = len(last) >= ODD
        return select_lines(possible), set(last)

    def _find_possible_keys(self, block: bytes, keys: list[bytes], asked: set[bytes]) -> set[bytes]:
        """Lines that an entry may match."""
        lines = [line for line, key in zip(block.translate(ZEROS).split(b"\n"), keys, strict=True) if key in asked]
        return {line.translate(None, DIGITS) for line in self.index.find_possible_lines(lines)}

    def _skip_lines(self, block: bytes, keys: list[bytes], passed: set[bytes]) -> None:
        """Lines like many that no entry matched: the last of them are kept."""
        places = list(islice((at for at in range(len(keys) - 1, -1, -1) if keys[at] in passed), ODD))
        lines = block.rsplit(b"\n", len(keys) - places[-1])
        before = self.found.lines + 1
        self.found.odd_last += [(before + at, lines[at - len(keys)][:ODD_WIDTH]) for at in reversed(places)]

    def _forget_keys(self) -> None:
        seen = Counter(
            {key: n for key, n in self.found.odd_seen.items() if len(key) < WINDOW}
        )  # longer lines are not shown
        self.found.odd_seen = Counter(dict(seen.most_common(ODD)))
        self._dull.clear()
        self._hot.clear()
        self._told.clear()

    def _look_at_lines(self, lines: list[bytes], keys: list[bytes]) -> None:
        self._samples = SampleReader(lines)
        last = len(lines) - 1  # empty where the block ends with a line
        for at, key in enumerate(keys):
            if self._readers and (at < last or lines[at]):
                self._feed_readers(lines[at])
            if key in self._hot:
                self._read_line(lines, at, key)

    def _feed_readers(self, line: bytes) -> None:
        for key, reader in list(self._readers.items()):
            self._record_exception(reader.feed_line(line))
            if not reader.open:
                del self._readers[key]

    def _record_exception(self, raised: RaisedException | None) -> None:
        if raised is not None:
            self.found.add_exception(raised)

    def _start_traceback(self, lines: list[bytes], at: int, number: int) -> None:
        """Of very many tracebacks, `finish_log` reads the last one at the end of the log."""
        self._tracebacks += 1
        if self._tracebacks > TRACEBACKS or (at and is_ignored(lines[at - 1], lines[at + 1 : at + 1 + CLEANUP_LINES])):
            return
        self.found.time = self._find_time(lines, at)
        reader = TracebackReader()
        logged = _read_logged_time(lines[max(0, at - 1)])
        reader.start_traceback(lines[at], self.name, number, self.found.time, logged, _find_line_before(lines, at))
        key = (reader.rank, reader.unit)
        if key in self._readers or len(self._readers) < READERS:
            self._readers[key] = reader

    def _read_line(self, lines: list[bytes], at: int, key: bytes) -> None:
        line = lines[at]
        number = self.found.lines + at + 1
        if HEAD in line and not is_boxed(line):
            self._start_traceback(lines, at, number)
            if self._tracebacks > TRACEBACKS:
                self._hot.discard(key)
                self._dull.add(key)
                return
        seen = self._told.get(key)
        if seen is None:
            if len(line) < WINDOW and self._is_no_report(lines, at):
                return
            seen = self._told[key] = _SeenLine(line if len(line) < WINDOW // 4 else line[:WINDOW])
            seen.names = self._match_new_line(lines, at, number, key)
            return
        names = seen.find_entries(line)
        if names is None:
            seen.others[extract_codes(line)] = self._match_new_line(lines, at, number, key)
            return
        if names and self._is_no_report(lines, at):
            return
        self._count_hits(names, number, line)
        if not names:
            self.found.odd_seen[key] += 1

    def _is_no_report(self, lines: list[bytes], at: int) -> bool:
        """Return whether the line is of printed data, or of an exception in a clean-up that ended nothing."""
        return self._samples.is_printed_data(at) or ends_cleanup(lines, at)

    def _count_hits(self, names: Iterable[str], number: int, line: bytes) -> None:
        for name in names:
            self.found.hits[name].count_line(number, line[:WINDOW])

    def _match_new_line(self, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        """Match a line that was not seen before, figures aside."""
        gist = self._gist_of[key] if key in self._gist_of else self._gists.extract_gists([key])[0]
        words = hash(frozenset(gist.split()))
        if self._vain[words] > MAX_LOOKS:
            self._skip_gist(key, gist)
            self.found.odd_last.append((number, lines[at][:ODD_WIDTH]))
            return ()
        names = self._match_entries(lines, at, number, gist)
        self._count_hits(names, number, lines[at])
        if len(self._vain) > KNOWN // 2:
            self._vain.clear()
        self._vain[words] = -(1 << 40) if names else self._vain[words] + 1
        if not names:
            self._record_unknown(number, lines[at][:ODD_WIDTH], key)
        return names

    def _match_entries(self, lines: list[bytes], at: int, number: int, gist: bytes) -> tuple[str, ...]:
        """The entries that the line matches; of very many similar lines without figures, not each is matched."""
        line = lines[at]
        alike = hash((gist, self.index.compute_traits(line))) if _is_plain(line) else None
        names = self._fared.find_entries(alike)
        if names and not any(self.found.hits[name].mild for name in names):
            return names
        names = tuple(dict.fromkeys(self._record_hits(lines, at, number)))
        self._fared.record_outcome(alike, names)
        return names

    def _record_hits(self, lines: list[bytes], at: int, number: int) -> Iterator[str]:
        """Record the line with its entries, and return them."""
        for piece in _cut_line(lines[at]):
            text = sanitize_line(piece)
            if is_note(text) or is_template(text):
                continue
            for entry, groups in self.index.match_line(text, self._make_context_reader(lines, at)):
                hit = self.found.hits.setdefault(entry.name, EntryHits())
                hit.mild = hit.mild and (is_mild(text) or is_refusal(lines[at + 1 : at + 1 + ANSWERED]))
                if len(hit.shown) < SHOWN:
                    line = Evidence(self.name, number, text, self._find_time(lines, at))
                    values = read_surroundings(entry, text, self._make_context_reader(lines, at)) | groups
                    hit.add_lines([MatchedLine(compute_kind(lines[at]), line, values)])
                yield entry.name

    def _record_unknown(self, number: int, line: bytes, key: bytes) -> None:
        self.found.odd_last.append((number, line))
        self.found.odd_seen[key] += 1
        if len(self.found.odd_first) < ODD:
            self.found.odd_first.setdefault(compute_kind(line), (number, line))

    def _skip_gist(self, key: bytes, gist: bytes) -> None:
        """Skip the next lines with this gist; this line need not be remembered."""
        if gist.strip() and len(gist) <= GIST and b"Traceback" not in key:
            if len(self._alike) > MAX_GISTS:
                self._alike.clear()
            self._alike.add(gist)
            self._hot.discard(key)

    def _make_context_reader(self, lines: list[bytes], at: int) -> Callable[[], str]:
        near = lines[max(0, at - AROUND) : at + AROUND + 1]
        return lambda: "\n".join(drop_prefix_rank(sanitize_line(line[:400])) for line in near)

    def _find_time(self, lines: list[bytes], at: int) -> float | None:
        """The time of the line, of the nearest line before it, or of the last traceback's head."""
        for line in lines[max(0, at - 40) : at + 1][::-1]:
            if (when := timestamps.parse_timestamp(line[:400].decode("utf-8", "replace"))) is not None:
                return when
        return self.found.time

    def finish_piece(self, after: Iterable[bytes] = ()) -> LogFindings:
        """Return the findings; `after` are the blocks after this part, into which an exception may continue."""
        self._finish_traceback(line for block in after for line in block.removesuffix(b"\n").split(b"\n"))
        for reader in self._readers.values():
            self._record_exception(reader.finish_log())
        self._forget_keys()
        return self.found

    def _finish_traceback(self, lines: Iterator[bytes]) -> None:
        while self._readers and (line := next(lines, None)) is not None:
            self._feed_readers(line)
            if HEAD in line:  # another traceback, of the next part
                text = line[:200].decode("utf-8", "replace")
                self._readers.pop((find_prefix_rank(text), find_prefix_unit(text)), None)


def _read_logged_time(line: bytes) -> float | None:
    """Return the time of a logger's line that reports an error: the traceback below it is part of the report."""
    return (
        timestamps.parse_timestamp(line[:400].decode("utf-8", "replace")) if _ERROR_LEVEL.search(line[:200]) else None
    )


def _find_line_before(lines: list[bytes], at: int) -> str:
    """Return the line before this one, or before an empty one there; "" if it is of another rank."""
    rank = find_prefix_rank(lines[at][:200].decode("utf-8", "replace"))
    before = (sanitize_line(line[:400]) for line in lines[max(0, at - 2) : at][::-1])
    found = next((text for text in before if text.strip() and find_own_text(text) != ""), "")
    return found if find_prefix_rank(found) == rank else ""


def _is_plain(line: bytes) -> bool:
    return (
        len(line) <= WINDOW and line.isascii() and b"\r" not in line and len(line.translate(None, DIGITS)) == len(line)
    )


def _cut_line(line: bytes) -> Iterable[bytes]:
    """Cut a line into pieces that are cheap to match; what a progress bar overwrote is a separate line."""
    if len(line) <= WINDOW and b"\r" not in line:
        return (line,)
    alike = {part.translate(None, DIGITS): part for part in line.split(b"\r") if part}  # the last of each kind
    parts = list(alike.values())
    return [
        part[start : start + WINDOW]
        for part in parts[-64:]
        for start in range(0, min(len(part), 1 << 16), WINDOW - 256)
    ]


def scan_blocks(name: str, blocks: Iterable[bytes], index: EntryIndex, every: bool = False) -> LogFindings:
    """Return the findings of all blocks."""
    one = LogScanner(name, index, every)
    for block in blocks:
        one.feed_block(block)
    return one.finish_piece().finish_log()

"""The findings of one log or a part of it; joined parts equal the result of one pass over the log; pure.

What is kept of a line that matches an entry does not depend on earlier lines, so that parts of a log can be read in
parallel.  Two things do depend on them.  Floods of unknown lines: of more than ODD kinds, each part keeps its own first
and last, and starts counting unsuccessful lines again, so other lines may be shown.  And of lines that differ only in
figures other than codes, the first of a part represents the others, as the first of a log does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import takewhile
from typing import TypeVar

from envcheck.explain import timestamps
from envcheck.explain.diagnosis import CatalogueEntry, Evidence, RaisedException
from envcheck.explain.exceptions import installed_versions
from envcheck.explain.exceptions.headless import may_tell_form, read_headless
from envcheck.explain.exceptions.installed_versions import PrintedVersion, list_wheels, normalize_name
from envcheck.explain.exceptions.notices import is_notice
from envcheck.explain.line_kind import compute_kind
from envcheck.explain.log_level import is_mild
from envcheck.explain.log_text import sanitize_line
from envcheck.explain.processes import pods
from envcheck.explain.processes.closing_lines import find_closing_line, find_last_exit, find_restart
from envcheck.explain.processes.launcher_report import ReportedEnd, read_launcher_report
from envcheck.explain.processes.loss_value import ends_without_loss
from envcheck.explain.processes.progress import ProgressMarks
from envcheck.explain.processes.rank_names import UNIT, find_prefix_rank, find_prefix_unit
from envcheck.explain.tracebacks import TracebackReader

SHOWN = 3  # first lines of each entry that are kept, no two equal except for figures
ODD = 150  # unknown alarming lines that are kept, at the beginning and at the end
TAIL, LAST, WIDTH = 1 << 15, 24, 2048  # bytes at the end of a log, lines of them that are kept, and bytes of each
EXCEPTIONS = 4096  # kept of one log, of all its ranks
RANKS = 4096  # whose first line of an entry is kept
PREFIX = 120  # bytes at the beginning of a line in which a launcher names the rank
HEAD = b"Traceback (most recent call last)"
CLEANUP_LINES = 60  # of a traceback of a clean-up
IGNORED = b"Exception ignored "  # in the line before a traceback of a clean-up, which ended nothing
AT_EXIT = b"Error in atexit._run_exitfuncs"  # the same, but a function there may be the program's own
_FRAME = re.compile(rb'^ {1,8}File "([^"]{1,400})"')
_INSTALLED_CODE = re.compile(rb"/(?:site|dist)-packages/|/lib/python\d|^<frozen ")
BUFFER = 1 << 13  # bytes of step output that a process may buffer until it ends, and which then follow its error
Line = TypeVar("Line", Evidence, RaisedException)
FRAMES, FOLLOWING = 80, 6  # lines before and after an exception without a head that are read
_MAYBE_RANK = re.compile(rb"(?i:rank|default)[_ ]?\d|\d\]<std|^(?:" + UNIT.encode() + rb")")
_INSTALLED = re.compile(rb"^(?:#\d{1,4} [\d.]{1,12} )?Successfully installed( [^\n]{1,4000})", re.MULTILINE)
_PACKAGE = re.compile(r"[=<>!~\[ ;(].*", re.DOTALL)  # what follows the name in a requirement
_NAMES = ("module", "package", "requirement", "what")  # groups with the name of a package
# How a server ends at Ctrl-C, after it reported its end.
_STOP_REQUEST = re.compile(r"KeyboardInterrupt$|asyncio\.exceptions\.CancelledError$")
_STEP = re.compile(rb"\bloss['\"]?\s?[:=]\s?['\"]?\d|\btrain_runtime\b")


@dataclass(frozen=True)
class MatchedLine:
    """A line that matches an entry.  `kind` is equal for lines that differ only in figures; `groups` are its values."""

    kind: int
    line: Evidence
    groups: Mapping[str, str]


@dataclass
class EntryHits:
    """The lines of one log that match one entry."""

    count: int = 0
    mild: bool = True  # logged as a warning, each time
    is_overcome: bool = False  # events that later ones overcame, each time
    last: int = 0  # line
    last_line: bytes = b""
    shown: list[MatchedLine] = field(default_factory=list)
    # The first line of each rank, and of each pod or container, in its prefix.
    by_rank: dict[int | str, tuple[int, bytes]] = field(default_factory=dict)

    def count_line(self, number: int, line: bytes) -> None:
        """Count a line, and keep it if it is the first of its rank."""
        self.count, self.last, self.last_line = self.count + 1, number, line
        if _MAYBE_RANK.search(line, 0, PREFIX) and len(self.by_rank) < RANKS:
            text = line[:PREFIX].decode("utf-8", "replace")
            rank, unit = find_prefix_rank(text), find_prefix_unit(text)
            if unit or rank is not None:
                self.by_rank.setdefault(unit if rank is None else rank, (number, line))

    @property
    def first_lines(self) -> list[Evidence]:
        return [one.line for one in self.shown]

    @property
    def groups(self) -> Mapping[str, str]:
        return next((one.groups for one in self.shown if one.groups), {})

    def add_lines(self, some: Iterable[MatchedLine]) -> None:
        for one in some:
            if len(self.shown) < SHOWN and all(one.kind != other.kind for other in self.shown):
                self.shown.append(one)


@dataclass
class LogFindings:
    """Findings of a log; `time` is that of the last traceback's head, `end` the last TAIL bytes.

    `finish_log` fills `odd`, `tail`, `reported`, `versions`, `trains` and `diverged` from them.
    """

    name: str
    lines: int = 0  # that have an end
    size: int = 0
    hits: dict[str, EntryHits] = field(default_factory=dict)
    raised: list[RaisedException] = field(default_factory=list)  # of each rank the first, and the last of each sort
    progress: ProgressMarks = field(default_factory=ProgressMarks)
    sections: list[pods.Section] = field(default_factory=list)  # of objects of Kubernetes
    recoveries: list[pods.Recovery] = field(default_factory=list)  # of pods
    odd_first: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # by kind: number, and alarming line
    odd_last: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=ODD))
    odd_seen: Counter[bytes] = field(default_factory=Counter)
    odd: list[Evidence] = field(default_factory=list)
    tail: list[Evidence] = field(default_factory=list)
    handled: list[range] = field(default_factory=list)  # lines of the exceptions with which the program coped
    reported: tuple[ReportedEnd, ...] = ()  # by a launcher whose output this is
    versions: tuple[PrintedVersion, ...] = ()  # of packages, in the first and last TAIL bytes
    time: float | None = None
    begin: bytes = b""
    end: bytes = b""
    read: int = 0  # lines, including a last one without a line end
    trains: int = 0  # line before which nothing ended the training: steps follow, or the mark of a regular end
    diverged: bool = False  # the loss of the last steps is NaN or infinite
    worked: int = 0  # line of a step that the program made before the exception that ended it: 0 without both
    is_replaced: bool = False  # by a later attempt of the same run: no line of this log ended the training

    def may_end_training(self, line: int) -> bool:
        """Return whether the line with this number may have ended the training.

        Before its last steps, only a traceback may: another process may have printed it.
        """
        if self.is_replaced or line < self.trains:
            return False
        return line >= self.worked or any(one.line <= line <= one.last for one in self.raised)

    def may_entry_end_training(self, entry: CatalogueEntry, line: int) -> bool:
        """Return whether the line of the entry may have ended it: after its regular end, other ranks leave as well."""
        return self.may_end_training(line) and not (entry.peer == "gone" and 0 < self.progress.end < line)

    def add_exception(self, raised: RaisedException) -> None:
        """Keep the first exception of a rank or a pod, and its last one of each sort."""
        same = [one for one in self.raised if _describe_sort(one) == _describe_sort(raised)]
        if len(same) > 1:
            self.raised.remove(same[-1])
        if len(self.raised) < EXCEPTIONS:
            self.raised.append(raised)

    def add_sections(self, some: list[pods.Section]) -> None:
        self.sections = pods.join_sections(self.sections, some)

    def add_recoveries(self, some: list[pods.Recovery]) -> None:
        self.recoveries = [*self.recoveries, *some][-pods.MOST :]

    def finish_log(self) -> LogFindings:
        """Complete the findings of a log that was read to its end."""
        odd = dict(self.odd_first)
        for number, line in self.odd_last:
            odd.setdefault(compute_kind(line), (number, line))
        self.raised.sort(key=lambda one: one.line)  # of several ranks, those that began first may have ended last
        self.odd = [Evidence(self.name, number, sanitize_line(line)) for number, line in odd.values()]
        self._judge_mark()
        self._pass_over_events()
        self._pass_over_installed()
        self._drop_handled()
        self._guess_exceptions()
        self.tail = _read_last_lines(self)
        self.reported = read_launcher_report(self.end, self.begin)
        self.versions = self._read_versions()
        self.diverged = ends_without_loss(self.end)
        self.read = self.lines + bool(self.end and not self.end.endswith(b"\n"))
        self._read_last_traceback()
        self._note_regular_stop()
        self._drop_handled()
        steps = [line for line in self.end.split(b"\n") if _STEP.search(line)]
        if self.size > TAIL and sum(map(len, steps)) > BUFFER:
            self.trains = self.lines + 1 - self.end.count(b"\n")
        self.trains = max(self.trains, self.progress.find_survived(), self.progress.end)
        self.worked = self._find_last_work()
        self.odd_first, self.begin, self.end = {}, b"", b""
        self.odd_last.clear()
        _fill_objects(self)
        return _fill_missing_times(self)

    def _judge_mark(self) -> None:
        """Take back the mark of a regular end after which the training went on, and add those of the last lines.

        A part, an agent or another program that ended well says nothing of one that ended with an exception.
        """
        if self.progress.has_gone_on():
            self.progress.end = 0
        below = self.lines + 2
        restart = below - find_restart(self.end) if find_restart(self.end) else 0
        failed = [one for one in self.raised if not (one.in_thread or one.is_handled or is_notice(one.text))]
        if all(one.end < restart for one in failed) and (at := find_closing_line(self.end)):
            self.progress.end = max(self.progress.end, below - at)
        if at := find_last_exit(self.end):
            self.progress.stopped = max(self.progress.stopped, below - at)

    def _note_regular_stop(self) -> None:
        """Take the stop of a server or container for a regular end if no trouble is between its last answer and that.

        A server whose engine died stops in the same way.
        """
        begin = max(0, self.progress.last.number if self.progress.last else 0, *self.progress.served)
        loud = [hit for hit in self.hits.values() if not hit.mild]
        hits = (number for hit in loud for number in (hit.last, *(line.line for line in hit.first_lines)))
        odd = (line.line for line in self.odd if not is_mild(line.text))
        troubles = (*hits, *odd, *(one.end for one in self.raised if not one.in_thread))
        if self.progress.stopped and not any(begin < line < self.progress.stopped for line in troubles):
            self.progress.end = max(self.progress.end, self.progress.stopped)

    def _pass_over_installed(self) -> None:
        """Take what pip reported of a package for a warning if it installed that package afterwards."""
        for row in _INSTALLED.finditer(self.end):
            number = self.lines + 1 - self.end.count(b"\n", row.start())
            names = {normalize_name(name) for name, _version in list_wheels(row[1].decode("utf-8", "replace"))}
            for hit in self.hits.values():
                wanted = {
                    normalize_name(_PACKAGE.sub("", value)) for name, value in hit.groups.items() if name in _NAMES
                }
                if hit.last < number and wanted & names:
                    hit.mild = True

    def _pass_over_events(self) -> None:
        """Take failed events of a pod that is ready, or was scheduled or started afterwards, for warnings."""
        if not self.recoveries:
            return
        self.odd = [
            line for line in self.odd if not pods.is_overcome(line.text, line.line, self.sections, self.recoveries)
        ]
        for hit in self.hits.values():
            lines = [(one.text, one.line) for one in hit.first_lines]
            lines += [(sanitize_line(hit.last_line), hit.last)] if hit.last_line else []
            hit.is_overcome = all(pods.is_overcome(*one, self.sections, self.recoveries) for one in lines)
            hit.mild = hit.mild or hit.is_overcome

    def _drop_handled(self) -> None:
        """Drop the exceptions with which the program coped: it told so before or after them, and made steps then.

        The lines of entries among theirs are warnings.
        """
        last = max(self.progress.last.number if self.progress.last else 0, self.progress.end, *self.progress.served)
        worked = max(self._find_last_work(), self.progress.end)
        dropped = [
            one
            for one in self.raised
            if (one.is_handled and max(one.last, one.end) < last)
            or (_is_survivable(one) and one.end < worked)
            or (0 < self.progress.end < one.line and one.in_thread)
            or (self.progress.end == self.progress.stopped > 0 and _STOP_REQUEST.match(one.text))
        ]
        self.raised = [one for one in self.raised if one not in dropped]
        spans = [range(one.line, max(one.last, one.end) + 1) for one in dropped]
        self.handled += spans
        for hit in self.hits.values():
            lines = {*(one.line for one in hit.first_lines), hit.last}
            hit.mild = hit.mild or all(any(line in span for span in spans) for line in lines)

    def _find_last_work(self) -> int:
        """Return the line of the last but one step before the exception that ended the program; 0 without both.

        A program may print its steps late, even after its exception.  What it printed before the exception, it printed
        while it worked, and one step may have been on its way.
        """
        ended = max((one.line for one in self.raised if not _is_survivable(one) and not is_notice(one.text)), default=0)
        steps = [one.number for one in self.progress.advances if one.number < ended]
        return steps[-2] if len(steps) > 1 else self.progress.find_survived()

    def _guess_exceptions(self) -> None:
        """Take alarming lines in the form of an exception's line for one if the log has no whole traceback.

        One that only reports the failure of another process is none.
        """
        if any(not one.is_cut and not one.is_handled and not is_notice(one.text) for one in self.raised):
            return
        last = self.end.split(b"\n")
        first = self.lines + 1 - (len(last) - 1)  # number of the first of these lines
        known = {line.line: line for hit in self.hits.values() for line in hit.first_lines}
        for line in sorted({**known, **{line.line: line for line in self.odd}}.values(), key=lambda line: line.line):
            at = line.line - first  # negative for a line that is not among them
            if (at > 0 and ends_cleanup(last, at)) or any(line.line in span for span in self.handled):
                continue
            near = last[max(0, at - FRAMES) : at] if at > 0 else []
            after = last[at + 1 : at + 1 + FOLLOWING] if at >= 0 else []
            found = read_headless(line.text, *([sanitize_line(one[:WIDTH]) for one in some] for some in (near, after)))
            # of what an entry knows, frames and the table of releases say more
            if found and (found.frames or line.line not in known or may_tell_form(found.text)):
                raised = RaisedException(
                    found.text,
                    self.name,
                    line.line,
                    found.frames[-1] if found.frames else "",
                    time=line.time,
                    frames=found.frames,
                    sources=found.sources,
                    rank=find_prefix_rank(line.text),
                    end=line.line,
                    details=found.details,
                    continuation=found.continuation,
                    last=line.line + found.taken,
                    is_handled=found.is_handled,
                )
                self.add_exception(raised)

    def make_evidence(self, number: int, line: bytes) -> Evidence:
        """Return a line as evidence, with its own time."""
        text = sanitize_line(line)
        return Evidence(self.name, number, text, timestamps.parse_timestamp(text))

    def _read_versions(self) -> tuple[PrintedVersion, ...]:
        parts = [(1, self.begin)]
        if self.size > len(self.begin):
            parts.append((self.lines + 1 - self.end.count(b"\n"), self.end))
        lines = ((first, [*map(sanitize_line, part.split(b"\n"))]) for first, part in parts)
        return tuple(one for first, some in lines for one in installed_versions.read_versions(some, first))

    def _read_last_traceback(self) -> None:
        """Read the traceback at the end of the log if it was not read: one of too many."""
        at = self.end.rfind(HEAD)
        number = self.lines + 1 - self.end.count(b"\n", at)
        if at < 0 or any(one.line >= number for one in self.raised):
            return
        start = self.end.rfind(b"\n", 0, at) + 1
        before = self.end[:start].rstrip(b"\n").rpartition(b"\n")[2]
        head, *rest = self.end[start:].split(b"\n")
        if is_ignored(before, rest):
            return
        reader = TracebackReader()
        reader.start_traceback(head, self.name, number, self.time, before=sanitize_line(before[:400]))
        fed = (reader.feed_line(line) for line in rest if reader.open)
        found = next(filter(None, fed), None) or reader.finish_log()
        if found:
            self.add_exception(found)


def _is_survivable(one: RaisedException) -> bool:
    """Return whether the program may have gone on after the exception."""
    return one.is_handled or one.is_reported or one.in_thread


def is_ignored(before: bytes, after: Sequence[bytes]) -> bool:
    """Return whether a traceback, by the line before its head and those after it, is of a clean-up that ended nothing.

    What a function of the program itself does at the exit may be to save the model.
    """
    if IGNORED in before or AT_EXIT not in before:
        return IGNORED in before
    frames = [found[1] for line in takewhile(lambda line: line[:1] == b" ", after) if (found := _FRAME.match(line))]
    return bool(frames) and all(_INSTALLED_CODE.search(path) for path in frames)


def ends_cleanup(lines: Sequence[bytes], at: int) -> bool:
    """Return whether the line is the exception's own line in a traceback of a clean-up, which ended nothing."""
    before = at - 1
    while before > max(0, at - CLEANUP_LINES) and lines[before][:1] in (b" ", b"\t"):
        before -= 1
    return before > 0 and HEAD in lines[before] and is_ignored(lines[before - 1], lines[before + 1 : at])


def _describe_sort(raised: RaisedException) -> tuple[int | None, str, bool, bool, bool]:
    return (raised.rank, raised.unit, is_notice(raised.text), raised.is_cut, raised.is_handled)


def join_pieces(pieces: Iterable[LogFindings]) -> LogFindings:
    """Join the findings of parts in their order, each with lines counted from its own beginning."""
    return reduce(_append_piece, pieces)


def _append_piece(a: LogFindings, b: LogFindings) -> LogFindings:
    """`a`, extended by the part that follows it."""
    for name, hit in b.hits.items():
        mine = a.hits.setdefault(name, EntryHits())
        mine.count, mine.mild, mine.last = mine.count + hit.count, mine.mild and hit.mild, hit.last + a.lines
        mine.last_line = hit.last_line
        for rank, (number, line) in hit.by_rank.items():
            mine.by_rank.setdefault(rank, (number + a.lines, line))
        mine.add_lines(replace(one, line=_shift_line(a, one.line)) for one in hit.shown)
    for raised in b.raised:
        a.add_exception(replace(_shift_line(a, raised), end=raised.end + a.lines, last=raised.last + a.lines))
    a.progress.append_part(b.progress, a.lines)
    a.add_sections([(number + a.lines, name) for number, name in b.sections])
    a.add_recoveries([(number + a.lines, event) for number, event in b.recoveries])
    for of, (number, line) in b.odd_first.items():
        if len(a.odd_first) < ODD:
            a.odd_first.setdefault(of, (number + a.lines, line))
    a.odd_last.extend((number + a.lines, line) for number, line in b.odd_last)
    a.odd_seen += b.odd_seen
    a.time = b.time if b.time is not None else a.time
    a.lines, a.size, a.end = a.lines + b.lines, a.size + b.size, (a.end + b.end)[-TAIL:]
    return a


def _shift_line(a: LogFindings, one: Line) -> Line:
    """A line of the next part; without a time nearby, it gets that of the last traceback's head."""
    return replace(one, line=one.line + a.lines, time=a.time if one.time is None else one.time)


def _read_last_lines(found: LogFindings) -> list[Evidence]:
    """The last lines that are not empty."""
    lines = found.end.split(b"\n")
    first = found.lines + 1 - (len(lines) - 1)
    said = [(max(1, first + at), line) for at, line in enumerate(lines) if line.strip()]
    return [Evidence(found.name, number, sanitize_line(line[:WIDTH])) for number, line in said[-LAST:]]


def _fill_objects(found: LogFindings) -> None:
    """Note of which object of Kubernetes each line is."""
    for hit in found.hits.values():
        hit.shown = [
            replace(one, line=replace(one.line, about=pods.find_object(one.line.text, one.line.line, found.sections)))
            for one in hit.shown
        ]


def _fill_missing_times(found: LogFindings) -> LogFindings:
    """A line without a time gets that of the preceding finding of the log."""
    told: list[Evidence | RaisedException] = [
        *found.raised,
        *(line for hit in found.hits.values() for line in hit.first_lines),
    ]
    clock = sorted((one.line, one.time) for one in told if one.time is not None)

    def dated(one: Line) -> Line:
        at = bisect_left(clock, (one.line, 0.0))
        return replace(one, time=clock[at - 1][1]) if one.time is None and at else one

    for hit in found.hits.values():
        hit.shown = [replace(one, line=dated(one.line)) for one in hit.shown]
    found.raised = [dated(one) for one in found.raised]
    return found

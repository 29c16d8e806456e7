"""How each process ended, and which failed first: data and decisions over all processes; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from envcheck.core.messages import Message, _, verbatim
from envcheck.explain.processes.rank_names import find_attempt

# exception, signal, error: it failed itself; waited: timed out waiting for others; stopped: others ended it, or left.
EndKind = Literal["exception", "signal", "error", "waited", "stopped", "finished", "running"]
FAILED = ("exception", "signal", "error")
BROKEN = (*FAILED, "waited", "stopped")
LOGS_YEAR_2002 = 1009843200.0  # earlier times are of lines without a year


@dataclass(frozen=True)
class ProcessEnd:
    """The end of one process; `reason` and `place` are from its log, `work` is its last collective operation.

    `is_estimate`: the time is that of an earlier line, good only to compare processes.
    `is_first`: its launcher noticed it before the others.  `is_numbered`: its rank is only a number in the log's name.
    `unit`: the pod or container before its lines, in a log of several.
    """

    log: str
    how: EndKind
    rank: int | None = None
    host: str = ""
    reason: str = ""
    place: str = ""
    time: float | None = None
    step: int | None = None
    waits: str = ""
    named: tuple[int, ...] = ()
    work: int | None = None
    line: int = 0
    is_first: bool = False
    is_numbered: bool = False
    is_estimate: bool = False
    unit: str = ""

    @property
    def clock(self) -> str:
        """The time of day as the log has it; "" without one, or if only an earlier line has one."""
        return (
            ""
            if self.time is None or self.is_estimate
            else datetime.fromtimestamp(self.time, timezone.utc).strftime("%H:%M:%S")
        )


@dataclass(frozen=True)
class FirstFailedProcess:
    """The process that failed first, or a rank that others name and whose log was not read."""

    end: ProcessEnd | None
    rank: int | None = None


def find_first_failure(ends: Sequence[ProcessEnd]) -> FirstFailedProcess | None:
    """Return the process that failed first; None if the logs do not tell."""
    failed = [end for end in ends if end.how in FAILED]
    named = Counter(rank for end in ends if end.how == "waited" for rank in end.named)
    if failed:
        return FirstFailedProcess(_choose_earliest(failed, named))
    if named:
        return _follow_names(ends, named)
    works = [end for end in ends if end.work is not None]
    if len(works) > 1:
        first, second = sorted(works, key=lambda end: end.work or 0)[:2]
        if first.work != second.work:
            return FirstFailedProcess(first)
    return _find_other_operation(ends) or _find_silent(ends)


def _find_other_operation(ends: Sequence[ProcessEnd]) -> FirstFailedProcess | None:
    """The only process that waited in another operation than all others: it took another path."""
    kinds = Counter(end.waits.partition(" ")[0] for end in ends if end.how == "waited" and end.waits)
    if len(kinds) != 2 or min(kinds.values()) > 1 or max(kinds.values()) < 2:
        return None
    odd = kinds.most_common()[-1][0]
    return FirstFailedProcess(next(end for end in ends if end.how == "waited" and end.waits.partition(" ")[0] == odd))


def _find_silent(ends: Sequence[ProcessEnd]) -> FirstFailedProcess | None:
    """The only process without an end, or without a line on it, whom others lost or waited for."""
    hows = {end.how for end in ends}
    running = [end for end in ends if end.how == "running"]
    if len(running) == 1 and hows & {"waited", "stopped"}:
        return FirstFailedProcess(running[0])
    ended = [end for end in ends if end.how == "stopped" and not end.line]  # by its launcher
    if len(ended) == 1 and not running and "waited" in hows:
        return FirstFailedProcess(ended[0])
    return None


def _choose_earliest(failed: Sequence[ProcessEnd], named: Counter[int]) -> ProcessEnd:
    """Of the first attempt, by time if all have one of a kind, otherwise the one that others wait for or that the
    launcher noticed first, otherwise the first in order.
    """
    first = min(find_attempt(end.log)[1] for end in failed)
    failed = [end for end in failed if find_attempt(end.log)[1] == first]
    times = [end.time for end in failed if end.time is not None]
    comparable = len(times) == len(failed) and len({time < LOGS_YEAR_2002 for time in times}) == 1

    def rate(end: ProcessEnd) -> tuple[float, int, bool]:
        waiting = named[end.rank] if end.rank is not None else 0
        return (end.time or 0.0 if comparable else 0.0, -waiting, not end.is_first)

    return min(failed, key=rate)


def _follow_names(ends: Sequence[ProcessEnd], named: Counter[int]) -> FirstFailedProcess:
    """The rank that most others wait for; if it waits for one as well, that one."""
    by_rank = {end.rank: end for end in ends if end.rank is not None}
    rank = named.most_common(1)[0][0]
    seen: set[int] = set()
    while rank not in seen and rank in by_rank and by_rank[rank].how == "waited" and by_rank[rank].named:
        seen.add(rank)
        rank = by_rank[rank].named[0]
    return FirstFailedProcess(by_rank.get(rank), rank)


def list_followers(ends: Sequence[ProcessEnd], first: FirstFailedProcess, how: EndKind) -> tuple[ProcessEnd, ...]:
    """Return the other processes that ended so."""
    return tuple(end for end in ends if end is not first.end and end.how == how)


def join_ranks(ranks: Sequence[int]) -> Message:
    """Return ranks in short: `0 and 8`, `0-7, 9, 12`."""
    parts: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    told = [str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    return _("{one} and {other}", one=told[0], other=told[1]) if len(told) == 2 else verbatim(", ".join(told))

"""Which worker failed first, from what is known of each; pure.

The launcher's status does not tell: it ends the healthy workers by SIGTERM and may report that (241 is -15 as a byte),
and it names the lowest rank of those that had failed when it looked.  A worker whose peer died fails as well, with
words about the connection, a moment later.  Which words are a cause and which follow is the catalogue's to say.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from envcheck.explain import diagnose, times

# What paddle's launcher says of a worker, and torchrun: as it sees it, and in the summary at its end.
_NAMED = (
    re.compile(r"^Container rank (?P<rank>\d+) status failed .* code (?P<code>-?\d+) log ", re.MULTILINE),
    re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)"),
    re.compile(r"^ *rank *: \d+ \(local_rank: (?P<rank>\d+)\)\n *exitcode *: (?P<code>-?\d+)", re.MULTILINE),
)
_BY_RANK = re.compile(r"^\[rank(\d{1,6})\]: ?(.*)$", re.MULTILINE)
WORDS = 40  # lines of one worker
LAST = 10  # lines of a log that workers share, where no traceback stands near its end
# With these the launchers' own report begins; what failed wrote before it.
_REPORT = re.compile(
    r"^.*(?:Sending process \d+ closing signal|failed \(exitcode: -?\d+\) local_rank: "
    r"|Container rank \d+ status failed)",
    re.MULTILINE,
)
_ENDED = re.compile(r"`Termination signal` is detected|\*\*\* SIGTERM |got signal: 15\b")
# A launcher's own process hands on the SIGTERM of its workers: as a shell tells it, as a byte of -15.
_ENDED_CODES = {-signal.SIGTERM, 128 + signal.SIGTERM, 256 - signal.SIGTERM}
_OWN_SIGNALS = {-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE}
_ERROR = re.compile(
    r"^Traceback \(most recent call last\)|^\w[\w.]*(?:Error|Exception): |^(?:\w*Error|tiny): |FatalError: "
    r"|Segmentation fault|core dumped|\bKilled\b|out of memory",
    re.MULTILINE | re.IGNORECASE,
)
_CONSEQUENCE = re.compile(
    r"connection (?:reset|closed|refused)|broken pipe|socket closed|peer (?:closed|went away)|HCCL.*timeout"
    r"|connect timeout|recv.* failed|TCPStore.*(?:fail|timeout)|gloo/transport/",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class WorkerEnd:
    """`rank` is the number on its node; `died_s` and `code` as the process table showed them, seconds since the start
    and minus the signal's number; `wrote_s` is when its log was last written, `log` its name below the folder of logs,
    "" where it has none."""

    rank: int
    lines: tuple[str, ...] = ()
    wrote_s: float = 0.0
    died_s: float | None = None
    code: int | None = None
    log: str = ""


@dataclass(frozen=True)
class FirstFailure:
    """`code` is None when nobody saw it; `follows`: none failed by itself, this was the first to lose another one;
    `shared`: the lines are of a log that the workers share, and may be another one's."""

    rank: int
    code: int | None
    lines: tuple[str, ...]
    follows: bool = False
    log: str = ""
    shared: bool = False


def named(launcher: str) -> tuple[tuple[int, int], ...]:
    """(rank, code) of the workers that the launcher's own words name."""
    found = [(int(m["rank"]), int(m["code"])) for pattern in _NAMED for m in pattern.finditer(launcher)]
    return tuple(dict.fromkeys(found))


def spoken(workers: Iterable[WorkerEnd], launcher: str) -> tuple[WorkerEnd, ...]:
    """With words for workers that have no log of their own: torch puts [rankN]: in front of each line of an exception.

    torchrun could keep a log for each (PET_TEE), but Trainer's steps and the bar that numbers them come apart then
    (tried), each on a way of its own.  N counts over all nodes, which have as many workers each.
    """
    every = tuple(workers)
    here = 1 + max((worker.rank for worker in every), default=0)
    found = [(int(m[1]) % here, m[2]) for m in _BY_RANK.finditer(launcher)]
    said = {rank: tuple(line for of, line in found if of == rank) for rank, _ in found}
    return tuple(w if w.lines else replace(w, lines=said.get(w.rank, ())[-WORDS:]) for w in every)


def first_failed(workers: Iterable[WorkerEnd], launcher: str) -> FirstFailure | None:
    """The worker whose failure was the cause; None when none failed by itself."""
    said, workers = dict(named(launcher)), spoken(workers, launcher)
    suspects = [(level, w) for w in workers if (level := _suspicion(w, said)) is not None]
    if not suspects:
        return None
    least = min(level for level, _ in suspects)
    worker = _earliest([w for level, w in suspects if level == least])
    code = said.get(worker.rank) if worker.code is None else worker.code
    if worker.lines or worker.log:
        return FirstFailure(worker.rank, code, worker.lines, least == 2, worker.log)
    lines = shared(launcher, worker.rank, 1 + max(w.rank for w in workers))
    return FirstFailure(worker.rank, code, lines, least == 2, shared=bool(lines))


def shared(launcher: str, rank: int, here: int) -> tuple[str, ...]:
    """The last words before the launcher's report, of nobody or of this rank: from a traceback on, if one is near."""
    report = _REPORT.search(launcher)
    said = launcher[: report.start()] if report else launcher
    lines = [line for line in said.splitlines() if line.strip() and _may_be_of(line, rank, here)][-WORDS:]
    heads = [at for at, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return tuple(lines[heads[0] :] if heads else lines[-LAST:])


def _may_be_of(line: str, rank: int, here: int) -> bool:
    found = _BY_RANK.match(line)
    return found is None or int(found[1]) % here == rank


def _earliest(workers: list[WorkerEnd]) -> WorkerEnd:
    """By the process table; else by what the logs themselves say of the time of their errors; else by their files."""
    told = [_told_s(w) for w in workers]
    if all(w.died_s is not None for w in workers) or not times.comparable(told):
        return min(workers, key=lambda w: (w.wrote_s if w.died_s is None else w.died_s, w.rank))
    return min(zip(told, workers, strict=True), key=lambda one: (one[0] or 0.0, one[1].rank))[1]


def _told_s(worker: WorkerEnd) -> float | None:
    """When the log first speaks of an error, by its own lines; None where they have no times."""
    seen = [one.evidence[0].time for one in diagnose(worker.lines) if one.kind in ("cause", "symptom")]
    said = [when for when in seen if when is not None]
    if said:
        return min(said)
    last = None
    for line in worker.lines:
        last = when if (when := times.of(line)) is not None else last
        if _ERROR.search(line):
            return last
    return None


def _suspicion(worker: WorkerEnd, said: dict[int, int]) -> int | None:
    """0: failed by itself; 1: died, nobody saw how; 2: failed over a connection, so because another one had."""
    text = "\n".join(worker.lines)
    if worker.code == 0 or worker.code in _ENDED_CODES or _ENDED.search(text):
        return None
    if worker.code in _OWN_SIGNALS:
        return 0
    if worker.code is not None or worker.rank in said or _ERROR.search(text):
        return _level(worker.lines)
    kinds = {one.kind for one in diagnose(worker.lines)} & {"cause", "symptom"}
    if kinds:
        return 0 if "cause" in kinds else 2
    return None if worker.died_s is None else 1


def _level(lines: Sequence[str]) -> int:
    """What a failed worker's last words are of."""
    kinds = {one.kind for one in diagnose(lines)}
    if "cause" in kinds:
        return 0
    return 2 if "symptom" in kinds or _CONSEQUENCE.search("\n".join(lines[-15:])) else 0

"""Find the worker that failed first.  Pure functions.

The launcher's report is not sufficient: it ends healthy workers with SIGTERM and may report that (241 is -15 as a
byte), and it names the lowest rank that had failed when it looked.  A worker whose peer died fails a moment later, with
a connection error.  The patterns of envcheck.explain distinguish causes from such consequences.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from envcheck.explain import diagnose, timestamps

# Reports about a failed worker by paddle's launcher, and by torchrun: immediately, and in the summary at the end.
_NAMED = (
    re.compile(r"^Container rank (?P<rank>\d+) status failed .* code (?P<code>-?\d+) log ", re.MULTILINE),
    re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)"),
    re.compile(r"^ *rank *: \d+ \(local_rank: (?P<rank>\d+)\)\n *exitcode *: (?P<code>-?\d+)", re.MULTILINE),
)
_BY_RANK = re.compile(r"^\[rank(\d{1,6})\]: ?(.*)$", re.MULTILINE)
WORDS = 40  # lines of one worker
LAST = 10  # lines of a log shared by workers, if there is no traceback near its end
# Start of the launcher's own report; the output of the failed worker is before it.
_REPORT = re.compile(
    r"^.*(?:Sending process \d+ closing signal|failed \(exitcode: -?\d+\) local_rank: "
    r"|Container rank \d+ status failed)",
    re.MULTILINE,
)
_ENDED = re.compile(r"`Termination signal` is detected|\*\*\* SIGTERM |got signal: 15\b")
# Exit codes of a process ended by SIGTERM: as a signal, as a shell reports it, and -15 as a byte.
_ENDED_CODES = {-signal.SIGTERM, 128 + signal.SIGTERM, 256 - signal.SIGTERM}
_OWN_SIGNALS = {-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE}
_ERROR = re.compile(
    r"^Traceback \(most recent call last\)|^\w[\w.]*(?:Error|Exception): |^(?:\w*Error|tiny): |FatalError: "
    r"|Segmentation fault|core dumped|\bKilled\b|out of memory",
    re.MULTILINE | re.IGNORECASE,
)
_CONSEQUENCE = re.compile(
    r"connection (?:reset|closed|refused)|broken pipe|socket closed|peer (?:closed|went away)|HCCL.{0,400}timeout"
    r"|connect timeout|recv.{0,400} failed|TCPStore.{0,400}(?:fail|timeout)|gloo/transport/",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class WorkerEnd:
    """How a worker ended.

    `rank` is the number on its node.  `died_s` (seconds since the start) and `code` (negative for a signal) are from
    the process table, None if unknown.  `wrote_s` is the time of the last write to its log; `log` is the path below the
    log folder, "" without a log of its own.
    """

    rank: int
    lines: tuple[str, ...] = ()
    wrote_s: float = 0.0
    died_s: float | None = None
    code: int | None = None
    log: str = ""


@dataclass(frozen=True)
class FirstFailure:
    """The worker that failed first.

    `code` is None if unknown.  `follows`: no worker failed by itself; this one lost its connection first.  `shared`:
    the lines are from a log shared by all workers and may belong to another one.
    """

    rank: int
    code: int | None
    lines: tuple[str, ...]
    follows: bool = False
    log: str = ""
    shared: bool = False


def parse_named_workers(launcher: str) -> tuple[tuple[int, int], ...]:
    """Return (rank, code) of the failed workers in the launcher's reports."""
    found = [(int(m["rank"]), int(m["code"])) for pattern in _NAMED for m in pattern.finditer(launcher)]
    return tuple(dict.fromkeys(found))


def add_shared_words(workers: Iterable[WorkerEnd], launcher: str) -> tuple[WorkerEnd, ...]:
    """Return the workers with lines from the launcher's log for those without a log of their own.

    torch prefixes each line of an exception with [rankN]:, where N counts over all nodes with equally many workers.
    torchrun could write a log per worker (PET_TEE), but then the steps of Trainer and the progress bar that numbers
    them end up in different streams (tested).
    """
    every = tuple(workers)
    here = 1 + max((worker.rank for worker in every), default=0)
    found = [(int(m[1]) % here, m[2]) for m in _BY_RANK.finditer(launcher)]
    said = {rank: tuple(line for of, line in found if of == rank) for rank, _ in found}
    return tuple(w if w.lines else replace(w, lines=said.get(w.rank, ())[-WORDS:]) for w in every)


def find_first_failed(workers: Iterable[WorkerEnd], launcher: str) -> FirstFailure | None:
    """Return the worker whose failure is the cause, else the first that lost a connection; None if none failed."""
    said, workers = dict(parse_named_workers(launcher)), add_shared_words(workers, launcher)
    suspects = [(level, w) for w in workers if (level := _suspicion_level(w, said)) is not None]
    if not suspects:
        return None
    least = min(level for level, _ in suspects)
    worker = _find_earliest([w for level, w in suspects if level == least])
    code = said.get(worker.rank) if worker.code is None else worker.code
    if worker.lines or worker.log:
        return FirstFailure(worker.rank, code, worker.lines, least == 2, worker.log)
    lines = select_shared_lines(launcher, worker.rank, 1 + max(w.rank for w in workers))
    return FirstFailure(worker.rank, code, lines, least == 2, shared=bool(lines))


def select_shared_lines(launcher: str, rank: int, here: int) -> tuple[str, ...]:
    """Return the last lines before the launcher's report that may belong to the rank, from a traceback on if near."""
    report = _REPORT.search(launcher)
    said = launcher[: report.start()] if report else launcher
    lines = [line for line in said.splitlines() if line.strip() and _may_belong_to(line, rank, here)][-WORDS:]
    heads = [at for at, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return tuple(lines[heads[0] :] if heads else lines[-LAST:])


def _may_belong_to(line: str, rank: int, here: int) -> bool:
    found = _BY_RANK.match(line)
    return found is None or int(found[1]) % here == rank


def _find_earliest(workers: list[WorkerEnd]) -> WorkerEnd:
    """Return the first to fail by process table, else by timestamps in the logs, else by modification time."""
    times = [_first_error_s(w) for w in workers]
    if all(w.died_s is not None for w in workers) or not timestamps.are_comparable(times):
        return min(workers, key=lambda w: (w.wrote_s if w.died_s is None else w.died_s, w.rank))
    return min(zip(times, workers, strict=True), key=lambda one: (one[0] or 0.0, one[1].rank))[1]


def _first_error_s(worker: WorkerEnd) -> float | None:
    """Return the time of the first error in the log, None without timestamps."""
    seen = [one.evidence[0].time for one in diagnose(worker.lines) if one.kind in ("cause", "symptom")]
    said = [when for when in seen if when is not None]
    if said:
        return min(said)
    last = None
    for line in worker.lines:
        last = when if (when := timestamps.parse_timestamp(line)) is not None else last
        if _ERROR.search(line):
            return last
    return None


def _suspicion_level(worker: WorkerEnd, said: dict[int, int]) -> int | None:
    """Return 0: failed by itself, 1: ended for an unknown reason, 2: lost a connection, None: did not fail."""
    text = "\n".join(worker.lines)
    if worker.code == 0 or worker.code in _ENDED_CODES or _ENDED.search(text):
        return None
    if worker.code in _OWN_SIGNALS:
        return 0
    if worker.code is not None or worker.rank in said or _ERROR.search(text):
        return _classify_last_words(worker.lines)
    kinds = {one.kind for one in diagnose(worker.lines)} & {"cause", "symptom"}
    if kinds:
        return 0 if "cause" in kinds else 2
    return None if worker.died_s is None else 1


def _classify_last_words(lines: Sequence[str]) -> int:
    """Return 2 if the last lines of a failed worker are about a connection, else 0."""
    kinds = {one.kind for one in diagnose(lines)}
    if "cause" in kinds:
        return 0
    return 2 if "symptom" in kinds or _CONSEQUENCE.search("\n".join(lines[-15:])) else 0

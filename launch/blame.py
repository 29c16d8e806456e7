"""Which worker failed first, from what is known of each; pure.

The launcher's status does not tell: it ends the healthy workers by SIGTERM and may report that (241 is -15 as a byte),
and it names the lowest rank of those that had failed when it looked.  A worker whose peer died fails as well, with
words about the connection, a moment later.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

_NAMED = re.compile(r"^Container rank (\d+) status failed .* code (-?\d+) log ", re.MULTILINE)
_ENDED = re.compile(r"`Termination signal` is detected|\*\*\* SIGTERM ")
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
class Worker:
    """`died_s` and `code` as the process table showed them, seconds since the start and minus the signal's number;
    `wrote_s` is when its log was last written."""

    rank: int
    lines: tuple[str, ...] = ()
    wrote_s: float = 0.0
    died_s: float | None = None
    code: int | None = None


@dataclass(frozen=True)
class Failed:
    """`code` is None when nobody saw it."""

    rank: int
    code: int | None
    lines: tuple[str, ...]


def named(launcher: str) -> tuple[tuple[int, int], ...]:
    """(rank, code) of the workers that the launcher's own words name."""
    return tuple((int(m[1]), int(m[2])) for m in _NAMED.finditer(launcher))


def first_failed(workers: Iterable[Worker], launcher: str) -> Failed | None:
    """The worker whose failure was the cause; None when none failed by itself."""
    said = dict(named(launcher))
    suspects = [(level, w) for w in workers if (level := _suspicion(w, said)) is not None]
    if not suspects:
        return None
    _, worker = min(suspects, key=lambda s: (s[0], s[1].wrote_s if s[1].died_s is None else s[1].died_s, s[1].rank))
    return Failed(worker.rank, said.get(worker.rank) if worker.code is None else worker.code, worker.lines)


def _suspicion(worker: Worker, said: dict[int, int]) -> int | None:
    """0: failed by itself; 1: died, nobody saw how; 2: failed over a connection, so because another one had."""
    text = "\n".join(worker.lines)
    if worker.code == 0 or worker.code == -signal.SIGTERM or _ENDED.search(text):
        return None
    if worker.code is not None or worker.rank in said or _ERROR.search(text):
        return 2 if _CONSEQUENCE.search("\n".join(worker.lines[-15:])) else 0
    return None if worker.died_s is None else 1

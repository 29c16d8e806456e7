"""What a launcher reports of its processes when one of them failed; pure.

Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_03:58:24
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 26107)  (SIGKILL)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice

MOST = 4096  # processes
NUMBERED = 4 * MOST  # numbers of tasks that are read, repeated ones included
_TORCHRUN = re.compile(
    rb"^\s{0,8}time\s{1,8}: (?P<time>\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)\s{0,8}\n(?:[^\n]{0,300}\n){0,2}?"
    rb"\s{0,8}rank\s{1,8}: (?P<rank>\d{1,6}) \(local_rank: (?P<local>\d{1,4})\)\s{0,8}\n"
    rb"\s{0,8}exitcode\s{1,4}: (?P<code>-?\d{1,3}) ",
    re.MULTILINE,
)
_FIRST = b"(first observed failure)"
_PADDLE = re.compile(rb"Container rank (?P<rank>\d{1,6}) status failed [^\n]{0,4000}?\bcode (?P<code>-?\d{1,3}) log\b")
# DeepSpeed ends the others and itself after the first; of several nodes, each line has the host before it.
_DEEPSPEED = re.compile(
    rb"^\[[^\]\n]{10,40}\] \[ERROR\] \[launch\.py:\d{1,5}:sig\w{4,20}\] "
    rb"\[[^\n]{0,6000}?'--local_rank=(?P<local>\d{1,4})'[^\n]{0,9000}?\] "
    rb"exits with return code = (?P<code>-?\d{1,3})\b",
    re.MULTILINE,
)
_DEEPSPEED_NODE = re.compile(rb"\bnum_local_procs=(?P<count>\d{1,4}), node_rank=(?P<node>\d{1,5})\b")
_SRUN = re.compile(
    rb"srun: error: (?P<host>[\w.-]{1,64}): tasks? (?P<ranks>[\d,-]{1,200}): "
    rb"(?:Exited with exit code (?P<code>\d{1,3})|"
    rb"(?P<text>Killed|Out Of Memory|Segmentation fault|Aborted|Terminated|Bus error))"
)
# Launchers that start the processes of a node: then srun has one task for each node.
_ON_NODE = re.compile(
    rb"torchrun|torch\.distributed\.(?:run|launch|elastic)|torch/distributed/(?:run|launch|elastic)"
    rb"|deepspeed[./]launcher|\[launch\.py:\d|\[runner\.py:\d|paddle[./]distributed[./]launch|LAUNCH (?:INFO|ERROR)"
    rb"|accelerate[./]commands[./]launch|Container rank \d"
)
_SIGNALS = {
    b"Killed": -9,
    b"Out Of Memory": -9,
    b"Segmentation fault": -11,
    b"Aborted": -6,
    b"Terminated": -15,
    b"Bus error": -7,
}


@dataclass(frozen=True)
class ReportedEnd:
    """The end of one process as its launcher saw it; `code` is minus the number of a signal.

    `is_task`: the number is one of srun, which is a rank only where srun starts each process.
    """

    rank: int
    code: int
    local_rank: int | None = None
    host: str = ""
    time: float | None = None
    is_first: bool = False
    is_task: bool = False


def read_launcher_report(end: bytes, begin: bytes = b"") -> tuple[ReportedEnd, ...]:
    """Return the processes in the reports at the end of a log, each once.

    DeepSpeed reports the number of a process on its node; which node it is stands at the beginning of the log.

    Tasks of srun are left out where a launcher on their node started the processes.
    """
    found: dict[int, ReportedEnd] = {}
    for one in (*_read_torchrun(end), *_read_paddle(end), *_read_deepspeed(end, begin), *_read_tasks(end)):
        if len(found) < MOST and one.code:
            found.setdefault(one.rank, one)
    return tuple(found.values())


def are_tasks_ranks(reports: Iterable[ReportedEnd], ranks: Iterable[int]) -> bool:
    """Return whether the tasks of srun are ranks; with a launcher on each node they are nodes.

    They are nodes if such a launcher reports as well, or if the logs have a rank above all tasks; `ranks` are those.
    """
    tasks = {one.is_task: one.rank for one in sorted(reports, key=lambda one: one.rank)}
    return False not in tasks and max(ranks, default=0) <= tasks.get(True, 0)


def _read_torchrun(end: bytes) -> Iterator[ReportedEnd]:
    first = end.rfind(_FIRST)
    for one in _TORCHRUN.finditer(end):
        yield ReportedEnd(
            int(one["rank"]),
            int(one["code"]),
            int(one["local"]),
            time=_read_time(one["time"].decode()),
            is_first=0 <= first < one.start(),
        )


def _read_time(text: str) -> float | None:
    """Return None for digits that are no time: the report may be damaged."""
    try:
        return datetime.strptime(text, "%Y-%m-%d_%H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _read_paddle(end: bytes) -> Iterator[ReportedEnd]:
    """The launcher names the lowest of the ranks that had failed when it looked, not the first."""
    for one in _PADDLE.finditer(end):
        yield ReportedEnd(int(one["rank"]), int(one["code"]))


def _read_deepspeed(end: bytes, begin: bytes) -> Iterator[ReportedEnd]:
    """The nodes have equally many processes; without the number of the node, the rank is unknown.

    The launcher prints the command that it started last, whichever process failed.
    """
    node = _DEEPSPEED_NODE.search(begin) or _DEEPSPEED_NODE.search(end)
    if node is None:
        return
    count = int(node["count"])
    first = int(node["node"]) * count
    for one in _DEEPSPEED.finditer(end):
        if int(one["local"]) == count - 1 > 0:
            continue
        yield ReportedEnd(first + int(one["local"]), int(one["code"]), int(one["local"]), is_first=True)


def _read_tasks(end: bytes) -> Iterator[ReportedEnd]:
    return iter(()) if _ON_NODE.search(end) else islice(_read_srun(end), NUMBERED)


def _read_srun(end: bytes) -> Iterator[ReportedEnd]:
    for one in _SRUN.finditer(end):
        code = int(one["code"]) if one["code"] else _SIGNALS[one["text"]]
        for rank in _expand_ranks(one["ranks"].decode()):
            yield ReportedEnd(rank, code, host=one["host"].decode(), is_task=True)


def _expand_ranks(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _unused, last = part.partition("-")
        if first.isdigit():
            yield from range(int(first), min(int(last) if last.isdigit() else int(first), int(first) + MOST) + 1)

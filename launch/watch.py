"""Following a run: the workers' logs as they grow, their processes, and one line of progress for a person."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import psutil

from envcheck.secrets import redact
from launch import progress
from launch.blame import Worker
from launch.clean import MARK

CHUNK = 1 << 20  # bytes of one log read at a time
LINE = 8 << 10  # bytes after which a line without an end is taken as one
KEPT_LINES, KEPT_STEPS = 40, 200_000
SAY_EVERY_S = 0.5
_LOG = re.compile(r"workerlog\.(\d+)")


class Tail:
    """The new whole lines of a growing file; `last` keeps the newest."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.rest = path, 0, b""
        self.last: deque[str] = deque(maxlen=KEPT_LINES)

    def read(self, final: bool = False) -> list[str]:
        """Bounded: what does not fit comes next time; `final` gives the line without an end, too."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                chunk = file.read(CHUNK)
        except OSError:
            return []
        self.at += len(chunk)
        *lines, self.rest = (self.rest + chunk).replace(b"\r", b"\n").split(b"\n")
        if len(self.rest) > LINE or (final and self.rest):
            lines, self.rest = [*lines, self.rest], b""
        texts = [line[:LINE].decode("utf-8", "replace") for line in lines if line.strip()]
        self.last.extend(redact(text) for text in texts[-KEPT_LINES:])  # ours to show; the steps need the true text
        return texts

    @property
    def wrote(self) -> float:
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0


class Watch:
    """What is known of a run so far.  `look` is called a few times a second, and once more at the end."""

    def __init__(self, logs: Path, pid: int, say: Callable[[progress.Step], None]) -> None:
        self.logs, self.pid, self.say = logs, pid, say
        self.began = time.time()
        self.tails: dict[int, Tail] = {}
        self.steps: list[progress.Step] = []
        self.events: list[str] = []
        self.peak_bytes = 0
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.alive: dict[int, psutil.Process] = {}

    def look(self, final: bool = False) -> None:
        if not final:
            self._processes()
        for path in sorted(self.logs.glob("workerlog.*")):
            found = _LOG.fullmatch(path.name)
            if found and int(found[1]) not in self.tails:
                self.tails[int(found[1])] = Tail(path)
        for tail in self.tails.values():
            while lines := tail.read(final):
                self._lines(lines)

    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._worker(rank) for rank in sorted({*self.tails, *self.dead}))

    def _worker(self, rank: int) -> Worker:
        tail, (died, code) = self.tails.get(rank), self.dead.get(rank, (None, None))
        lines, wrote = (tuple(tail.last), tail.wrote - self.began) if tail else ((), 0.0)
        return Worker(rank, lines, wrote, None if died is None else died - self.began, code)

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            step = progress.read(line)
            if step and len(self.steps) < KEPT_STEPS:
                self.steps.append(step)
                self.say(step)

    def _processes(self) -> None:
        """The memory of all of them, and who died: the dead are zombies until the launcher looks, a second later."""
        try:
            family = psutil.Process(self.pid).children(recursive=True)
        except psutil.Error:
            return
        for process in family:
            rank = None if process.pid in {p.pid for p in self.alive.values()} else _rank(process)
            if rank is not None and rank not in self.dead:
                self.alive[rank] = process
        for rank, process in self.alive.items():
            if rank not in self.dead and _gone(process):
                self.dead[rank] = (time.time(), _exit_code(process.pid))
        self.peak_bytes = max(self.peak_bytes, sum(_resident(p) for p in family))


def _rank(process: psutil.Process) -> int | None:
    """Of a worker: the launcher gives it a number in its environment; what the worker itself starts inherits it."""
    with contextlib.suppress(psutil.Error, ValueError, KeyError, OSError):
        if process.status() != psutil.STATUS_ZOMBIE:
            return int(process.environ().get("PADDLE_TRAINER_ID") or process.environ()["RANK"])
    return None


def _gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _exit_code(pid: int) -> int | None:
    """A zombie's code from the last field of /proc/PID/stat; minus the signal's number as in subprocess."""
    try:
        status = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[-1])
        return os.waitstatus_to_exitcode(status)
    except (OSError, ValueError, IndexError):
        return None


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def survivors(run: Path) -> list[psutil.Process]:
    """Every process that carries the run's mark: paddle gives its workers sessions of their own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == str(run) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def orphan(runs: Path) -> str | None:
    """A process of a run in this folder whose envcheck was killed before it could end it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK, "").startswith(f"{runs}/") and process.status() != psutil.STATUS_ZOMBIE:
                return f"{process.pid} (left over from a run that was killed)"
    return None


class Teller:
    """One line that changes on a terminal; elsewhere plain lines, at most two a second and always the last."""

    def __init__(self, stream: TextIO | None = None, of: int | None = None) -> None:
        self.stream, self.of = stream or sys.stderr, of
        self.last: str | None = None
        self.said_at = 0.0
        self.status = _status(self.stream)

    def __call__(self, step: progress.Step) -> None:
        words = progress.words(step, self.of)
        if self.status:
            self.status.update(words)
        elif time.monotonic() - self.said_at >= SAY_EVERY_S:
            self._print(words)
            return
        self.last = words

    def close(self) -> None:
        if self.status:
            self.status.stop()
        if self.last:
            self._print(self.last)

    def _print(self, words: str) -> None:
        self.last, self.said_at = None, time.monotonic()
        print(words, file=self.stream, flush=True)


def _status(stream: TextIO):  # type: ignore[no-untyped-def]  # rich is loaded where there is a terminal to show it on
    if not stream.isatty():
        return None
    from rich.console import Console

    status = Console(file=stream).status("starting", spinner="line")
    status.start()
    return status

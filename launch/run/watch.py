"""Follow a run: read the growing logs, collect the steps, show a progress line."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text
from envcheck.core.signals import tolerate_lost_output
from launch.logs import eta
from launch.logs.rank_times import RankTimes
from launch.logs.reader import LogReader
from launch.logs.training_step import TrainingStep, describe_step
from launch.run.first_failure import WorkerEnd
from launch.targets.stage import WorkerProcesses

if TYPE_CHECKING:
    from rich.status import Status

CHUNK = 1 << 20  # bytes of one log read at a time
CHUNKS, CHUNKS_AT_END = 4, 256  # reads per log and update: a flood of lines must not block everything else
LINE = 8 << 10  # bytes after which a line without line break is split
BAR, BARS = b"%|", 1000  # mark of progress bars; lines per read considered for `last_lines`
KEPT_LINES, KEPT_STEPS = 40, 20_000  # beyond KEPT_STEPS, every second of the older steps is dropped
# Scanning processes takes 3 ms on a small and 20 ms on a large host; it may use 1/200 of a core, and 1/50 in the first
# minute, when workers start.
FAMILY_SHARE, SOON_SHARE, SOON_S = 200, 50, 60.0
SAY_EVERY_S, CHANGE_EVERY_S = 0.5, 0.1
FOLDERS_EVERY_S = 2.0  # interval between searches for new logs
LAUNCHER = "launcher.log"
# Logs of workers: paddle's launcher; torchrun with --log-dir (JOB_x/attempt_0/RANK/stdout.log).
LOGS = {
    "workerlog.*": r"workerlog\.(\d{1,6})",
    "*/attempt_*/*/std*.log": r".*/attempt_\d+/(\d{1,6})/std(?:out|err)\.log",
}


class LogTail:
    """Reads new complete lines of a growing file; `grew_at` is the time of the last growth (monotonic clock)."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.rest = path, 0, b""
        self.reader = LogReader()
        self.grew_at = time.monotonic()
        self._last: deque[bytes] = deque(maxlen=KEPT_LINES)

    def read_lines(self, final: bool = False) -> list[str]:
        """Return new lines of at most CHUNK bytes; `final` includes an incomplete last line."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                chunk = file.read(CHUNK)
        except OSError:
            return []
        self.at += len(chunk)
        if chunk:
            self.grew_at = time.monotonic()
        *lines, self.rest = (self.rest + chunk).replace(b"\r", b"\n").split(b"\n")
        if len(self.rest) > LINE or (final and self.rest):
            lines, self.rest = [*lines, self.rest], b""
        kept = [line[:LINE] for line in lines if line.strip()]
        self._remember_lines(kept)
        return [line.decode("utf-8", "replace") for line in kept]

    def _remember_lines(self, lines: list[bytes]) -> None:
        """Keep the last lines; of successive progress bars only the newest."""
        for line in lines[-BARS:]:
            if BAR in line and self._last and BAR in self._last[-1]:
                self._last.pop()
            self._last.append(line)

    @property
    def last_lines(self) -> list[str]:
        """The newest lines, without secrets."""
        return [redact_text(line.decode("utf-8", "replace")) for line in self._last]

    @property
    def written_at(self) -> float:
        """Modification time in seconds since 1970, 0 if the file is missing."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0


class RunWatch:
    """The state of a run, from its logs and processes; call `update_state` a few times a second and at the end.

    Only steps of the first log that contains any are used: launchers repeat the output of their first worker, and ranks
    print the same steps.  `say` gets each step; `argv` is the command of the launcher.
    """

    def __init__(
        self, logs: Path, family: WorkerProcesses, say: Callable[[TrainingStep], None], argv: tuple[str, ...] = ()
    ) -> None:
        self.logs, self.family, self.say, self.argv = logs, family, say, argv
        self.began, self.looked = time.time(), 0.0
        self.tails: dict[tuple[int, str], LogTail] = {}
        self.launcher = LogTail(logs / LAUNCHER)
        self.source: LogTail | None = None
        self.steps: list[TrainingStep] = []
        self.first_step_at: float | None = None  # monotonic clock, as all attributes below
        self.stepped_at: float | None = None
        self.marks: deque[eta.Mark] = deque(maxlen=eta.WINDOW)
        self.rank_times = RankTimes()
        self._family_due = 0.0

    def update_state(self, final: bool = False) -> None:
        """Read new log lines and update the processes; `final` reads everything and flushes the last step."""
        if not final:
            self._update_processes()
        if final or not self.steps or time.monotonic() - self.looked > FOLDERS_EVERY_S:
            self._find_logs()
        for rank, tail in (*((key[0], tail) for key, tail in self.tails.items()), (None, self.launcher)):
            for _unused in range(CHUNKS_AT_END if final else CHUNKS):
                if not (lines := tail.read_lines(final)):
                    break
                self._read_steps(tail, lines, rank)
        for tail in (*self.tails.values(), self.launcher) if final else ():
            if self.source in (None, tail) and (steps := tail.reader.flush_waiting()):
                self.source = tail
                self._add_steps(steps)

    def _update_processes(self) -> None:
        """Find new workers and measure memory; ended ones are also reported by `wait_for_death`."""
        began = time.monotonic()
        if began < self._family_due:
            return
        self.family.update_workers()
        took = time.monotonic() - began
        soon = time.time() - self.began < SOON_S
        self._family_due = began + took * (SOON_SHARE if soon else FAMILY_SHARE)

    @property
    def has_begun(self) -> bool:
        """Whether a worker has started."""
        return bool(self.tails or self.steps or self.family.dead)

    @property
    def grew_at(self) -> float:
        """Time when any log last grew (monotonic clock)."""
        return max(tail.grew_at for tail in (*self.tails.values(), self.launcher))

    def list_newest_lines(self) -> list[str]:
        """Return the newest lines of the log with the steps, else of the launcher's."""
        return (self.source or next(iter(self.tails.values()), self.launcher)).last_lines

    def list_workers(self) -> tuple[WorkerEnd, ...]:
        """Return log lines and exit code of each worker, by rank."""
        return tuple(
            self._build_worker_end(rank) for rank in sorted({*(rank for rank, _ in self.tails), *self.family.dead})
        )

    def _find_logs(self) -> None:
        self.looked = time.monotonic()
        for pattern, name in LOGS.items():
            for path in sorted(self.logs.glob(pattern)):
                found = re.fullmatch(name, str(path.relative_to(self.logs)))
                if found and (int(found[1]), str(path)) not in self.tails:
                    self.tails[int(found[1]), str(path)] = LogTail(path)

    def _build_worker_end(self, rank: int) -> WorkerEnd:
        tails = [tail for (of, _), tail in sorted(self.tails.items()) if of == rank]
        died, code = self.family.dead.get(rank, (None, None))
        lines = tuple(line for tail in sorted(tails, key=lambda t: t.written_at) for line in tail.last_lines)
        wrote = max((tail.written_at for tail in tails), default=self.began) - self.began
        log = str(max(tails, key=lambda t: t.written_at).path.relative_to(self.logs)) if tails else ""
        return WorkerEnd(rank, lines, wrote, None if died is None else died - self.began, code, log)

    def _read_steps(self, tail: LogTail, lines: list[str], rank: int | None) -> None:
        if self.source not in (None, tail) and rank is None:
            return
        for line in lines:
            if steps := tail.reader.feed_line(line):
                if rank is not None:
                    self.rank_times.add_steps(rank, steps, time.monotonic())
                if self.source in (None, tail):
                    self.source = tail
                    self._add_steps(steps)

    def _add_steps(self, steps: list[TrainingStep]) -> None:
        for step in steps:
            now = self.stepped_at = time.monotonic()
            self.first_step_at = self.first_step_at or now
            self.steps.append(step)
            if step.step is not None:
                eta.add_mark(self.marks, now, step.step)
            self.say(step)
        if len(self.steps) > KEPT_STEPS:
            self.steps = [*self.steps[: -KEPT_STEPS // 10 : 2], *self.steps[-KEPT_STEPS // 10 :]]


class ProgressLine:
    """Shows the progress: one updated line on a terminal, else at most two lines a second and the last step."""

    def __init__(self, stream: TextIO | None = None, of: int | None = None, plain: bool = False) -> None:
        self.stream, self.of = stream or sys.stderr, of
        self.last: TrainingStep | None = None
        self.said_at = 0.0
        self.marks: deque[eta.Mark] = deque(maxlen=eta.WINDOW)
        self.status = None if plain else _start_status(self.stream)

    def __call__(self, step: TrainingStep) -> None:
        self.last = step
        if step.step is not None:
            eta.add_mark(self.marks, time.monotonic(), step.step)
        if time.monotonic() - self.said_at < (CHANGE_EVERY_S if self.status else SAY_EVERY_S):
            return
        if self.status:
            self.said_at = time.monotonic()
            with tolerate_lost_output():
                self.status.update(self._describe_step(step))
        else:
            self._print_step(step)

    def close(self) -> None:
        """Remove the updated line and print the last step."""
        if self.status:
            with tolerate_lost_output():
                self.status.stop()
        if self.last:
            self._print_step(self.last)

    def _print_step(self, step: TrainingStep) -> None:
        self.last, self.said_at = None, time.monotonic()
        with tolerate_lost_output():
            print(self._describe_step(step), file=self.stream, flush=True)

    def _describe_step(self, step: TrainingStep) -> str:
        of = step.of or self.of
        return describe_step(step, of, None if of == step.step else eta.remaining_s(tuple(self.marks), of))


def _start_status(stream: TextIO) -> Status | None:
    if not stream.isatty():
        return None
    from rich.console import Console  # imported only for a terminal

    status = Console(file=stream).status(translate(_("starting")), spinner="line")
    status.start()
    return status

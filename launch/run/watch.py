"""Following a run: the workers' logs as they grow, and one line of progress for a person."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from envcheck.core.language import label
from envcheck.core.secrets import redact
from envcheck.core.signals import unheard
from launch.logs import eta
from launch.logs.reader import LogReader
from launch.logs.step import TrainingStep, words
from launch.run.first_failure import WorkerEnd
from launch.targets.stage import WorkerProcesses

if TYPE_CHECKING:
    from rich.status import Status

CHUNK = 1 << 20  # bytes of one log read at a time
CHUNKS, CHUNKS_AT_END = 4, 256  # of each log at one look: a flood of lines must not keep us from all else
LINE = 8 << 10  # bytes after which a line without an end is taken as one
BAR, BARS = b"%|", 1000  # of a progress bar; lines of one read that are looked at for the last words
KEPT_LINES, KEPT_STEPS = 40, 20_000  # of a longer run every second of the older steps goes, again and again
# Looking for processes, 3 ms on a small host and 20 on a large one, may take a two hundredth of a core; in the first
# minute, when workers begin, a fiftieth.
FAMILY_SHARE, SOON_SHARE, SOON_S = 200, 50, 60.0
SAY_EVERY_S, CHANGE_EVERY_S = 0.5, 0.1
FOLDERS_EVERY_S = 2.0  # looks for new logs; the first ones come soon
LAUNCHER = "launcher.log"
# paddle's launcher; torchrun with --log-dir: JOB_x/attempt_0/RANK/stdout.log
LOGS = {
    "workerlog.*": r"workerlog\.(\d{1,6})",
    "*/attempt_*/*/std*.log": r".*/attempt_\d+/(\d{1,6})/std(?:out|err)\.log",
}


class Tail:
    """The new whole lines of a growing file; `last` are the newest, `grew_at` when it last grew."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.rest = path, 0, b""
        self.reader = LogReader()
        self.grew_at = time.monotonic()
        self._last: deque[bytes] = deque(maxlen=KEPT_LINES)

    def read(self, final: bool = False) -> list[str]:
        """Bounded: what does not fit comes next time; `final` gives the line without an end, too."""
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
        self._remember(kept)
        return [line.decode("utf-8", "replace") for line in kept]

    def _remember(self, lines: list[bytes]) -> None:
        """A progress bar that is drawn again replaces the one before: the last words are no forty bars."""
        for line in lines[-BARS:]:
            if BAR in line and self._last and BAR in self._last[-1]:
                self._last.pop()
            self._last.append(line)

    @property
    def last(self) -> list[str]:
        """Ours to show, so without secrets; the steps need the true text."""
        return [redact(line.decode("utf-8", "replace")) for line in self._last]

    @property
    def wrote(self) -> float:
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0


class Watch:
    """What is known of a run so far.  `look` is called a few times a second, and once more at the end.

    The first log that tells of a step is the one whose steps count: a launcher repeats its first worker, and ranks
    repeat each other.  `argv` is the launcher's own command.
    """

    def __init__(
        self, logs: Path, family: WorkerProcesses, say: Callable[[TrainingStep], None], argv: tuple[str, ...] = ()
    ) -> None:
        self.logs, self.family, self.say, self.argv = logs, family, say, argv
        self.began, self.looked = time.time(), 0.0
        self.tails: dict[tuple[int, str], Tail] = {}
        self.launcher = Tail(logs / LAUNCHER)
        self.source: Tail | None = None
        self.steps: list[TrainingStep] = []
        self.first_step_at: float | None = None  # on the monotonic clock, as all that follow
        self.stepped_at: float | None = None
        self.marks: deque[eta.Mark] = deque(maxlen=eta.WINDOW)
        self._family_due = 0.0

    def look(self, final: bool = False) -> None:
        if not final:
            self._relatives()
        if final or not self.steps or time.monotonic() - self.looked > FOLDERS_EVERY_S:
            self._find()
        for tail in (*self.tails.values(), self.launcher):
            for _ in range(CHUNKS_AT_END if final else CHUNKS):
                if not (lines := tail.read(final)):
                    break
                self._lines(tail, lines)
        for tail in (*self.tails.values(), self.launcher) if final else ():
            if self.source in (None, tail) and (steps := tail.reader.rest()):
                self.source = tail
                self._steps(steps)

    def _relatives(self) -> None:
        """A worker that dies is seen at once anyway, by `wait`; this finds new ones, and counts memory."""
        began = time.monotonic()
        if began < self._family_due:
            return
        self.family.look()
        took = time.monotonic() - began
        soon = time.time() - self.began < SOON_S
        self._family_due = began + took * (SOON_SHARE if soon else FAMILY_SHARE)

    @property
    def begun(self) -> bool:
        """Whether a worker was seen."""
        return bool(self.tails or self.steps or self.family.dead)

    @property
    def grew_at(self) -> float:
        """When any log last grew, on the monotonic clock."""
        return max(tail.grew_at for tail in (*self.tails.values(), self.launcher))

    def lines(self) -> list[str]:
        """The newest of the log that tells the steps, else of the launcher's."""
        return (self.source or next(iter(self.tails.values()), self.launcher)).last

    def workers(self) -> tuple[WorkerEnd, ...]:
        return tuple(self._worker(rank) for rank in sorted({*(rank for rank, _ in self.tails), *self.family.dead}))

    def _find(self) -> None:
        self.looked = time.monotonic()
        for pattern, name in LOGS.items():
            for path in sorted(self.logs.glob(pattern)):
                found = re.fullmatch(name, str(path.relative_to(self.logs)))
                if found and (int(found[1]), str(path)) not in self.tails:
                    self.tails[int(found[1]), str(path)] = Tail(path)

    def _worker(self, rank: int) -> WorkerEnd:
        tails = [tail for (of, _), tail in sorted(self.tails.items()) if of == rank]
        died, code = self.family.dead.get(rank, (None, None))
        lines = tuple(line for tail in sorted(tails, key=lambda t: t.wrote) for line in tail.last)
        wrote = max((tail.wrote for tail in tails), default=self.began) - self.began
        log = str(max(tails, key=lambda t: t.wrote).path.relative_to(self.logs)) if tails else ""
        return WorkerEnd(rank, lines, wrote, None if died is None else died - self.began, code, log)

    def _lines(self, tail: Tail, lines: list[str]) -> None:
        if self.source not in (None, tail):
            return
        for line in lines:
            if steps := tail.reader.feed(line):
                self.source = tail
                self._steps(steps)

    def _steps(self, steps: list[TrainingStep]) -> None:
        for step in steps:
            now = self.stepped_at = time.monotonic()
            self.first_step_at = self.first_step_at or now
            self.steps.append(step)
            if step.step is not None:
                eta.marked(self.marks, now, step.step)
            self.say(step)
        if len(self.steps) > KEPT_STEPS:
            self.steps = [*self.steps[: -KEPT_STEPS // 10 : 2], *self.steps[-KEPT_STEPS // 10 :]]


class Teller:
    """One line that changes on a terminal; elsewhere plain lines, at most two a second and always the last."""

    def __init__(self, stream: TextIO | None = None, of: int | None = None, plain: bool = False) -> None:
        self.stream, self.of = stream or sys.stderr, of
        self.last: TrainingStep | None = None
        self.said_at = 0.0
        self.marks: deque[eta.Mark] = deque(maxlen=eta.WINDOW)
        self.status = None if plain else _status(self.stream)

    def __call__(self, step: TrainingStep) -> None:
        self.last = step
        if step.step is not None:
            eta.marked(self.marks, time.monotonic(), step.step)
        if time.monotonic() - self.said_at < (CHANGE_EVERY_S if self.status else SAY_EVERY_S):
            return
        if self.status:
            self.said_at = time.monotonic()
            with unheard():
                self.status.update(self._words(step))
        else:
            self._print(step)

    def close(self) -> None:
        if self.status:
            with unheard():
                self.status.stop()
        if self.last:
            self._print(self.last)

    def _print(self, step: TrainingStep) -> None:
        self.last, self.said_at = None, time.monotonic()
        with unheard():
            print(self._words(step), file=self.stream, flush=True)

    def _words(self, step: TrainingStep) -> str:
        of = step.of or self.of
        return words(step, of, None if of == step.step else eta.left_s(tuple(self.marks), of))


def _status(stream: TextIO) -> Status | None:
    if not stream.isatty():
        return None
    from rich.console import Console  # loaded where there is a terminal to show it on

    status = Console(file=stream).status(label("starting"), spinner="line")
    status.start()
    return status

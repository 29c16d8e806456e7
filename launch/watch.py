"""Following a run: the workers' logs as they grow, and one line of progress for a person."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from envcheck.secrets import redact
from envcheck.stopping import unheard
from launch import progress
from launch.blame import Worker
from launch.stage import Family

if TYPE_CHECKING:
    from rich.status import Status

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

    def __init__(self, logs: Path, family: Family, say: Callable[[progress.Step], None]) -> None:
        self.logs, self.family, self.say = logs, family, say
        self.began = time.time()
        self.tails: dict[int, Tail] = {}
        self.steps: list[progress.Step] = []

    def look(self, final: bool = False) -> None:
        if not final:
            self.family.look()
        for path in sorted(self.logs.glob("workerlog.*")):
            found = _LOG.fullmatch(path.name)
            if found and int(found[1]) not in self.tails:
                self.tails[int(found[1])] = Tail(path)
        for tail in self.tails.values():
            while lines := tail.read(final):
                self._lines(lines)

    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._worker(rank) for rank in sorted({*self.tails, *self.family.dead}))

    def _worker(self, rank: int) -> Worker:
        tail, (died, code) = self.tails.get(rank), self.family.dead.get(rank, (None, None))
        lines, wrote = (tuple(tail.last), tail.wrote - self.began) if tail else ((), 0.0)
        return Worker(rank, lines, wrote, None if died is None else died - self.began, code)

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            step = progress.read(line)
            if step and len(self.steps) < KEPT_STEPS:
                self.steps.append(step)
                self.say(step)


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
            with unheard():
                self.status.update(words)
        elif time.monotonic() - self.said_at >= SAY_EVERY_S:
            self._print(words)
            return
        self.last = words

    def close(self) -> None:
        if self.status:
            with unheard():
                self.status.stop()
        if self.last:
            self._print(self.last)

    def _print(self, words: str) -> None:
        self.last, self.said_at = None, time.monotonic()
        with unheard():
            print(words, file=self.stream, flush=True)


def _status(stream: TextIO) -> Status | None:
    if not stream.isatty():
        return None
    from rich.console import Console  # loaded where there is a terminal to show it on

    status = Console(file=stream).status("starting", spinner="line")
    status.start()
    return status

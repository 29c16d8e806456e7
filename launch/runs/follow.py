"""A run that goes on without us: its steps as they come, until it ends; and how to end it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from envcheck.core import errors
from envcheck.core.errors import StepError, UsageError
from launch.logs.step import TrainingStep, words
from launch.run import process_tree, record
from launch.run.watch import Watch
from launch.runs import known
from launch.runs.backends import Logs, find_scheduler
from launch.runs.run_state import LOST, ORPHANED, Run

LOOK_EVERY_S = 0.3
STOP_S = 60.0  # a checkpoint may be written first


class UnwatchedProcesses:
    """A family whose processes are another envcheck's."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.peak_bytes = 0

    def look(self) -> None: ...

    def living(self) -> None: ...

    def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


def follow(run: Run, say: Callable[[TrainingStep], None]) -> Run:
    """Until it has ended; what was said before is said again."""
    with near(run) as (logs, fetch):
        watch = Watch(logs, UnwatchedProcesses(), say)
        while True:
            now = known.read(run.folder) or run
            fetch(not now.running)
            watch.look(final=not now.running)
            if not now.running:
                return now
            time.sleep(LOOK_EVERY_S)


def begun(run: Run, say: Callable[[str], None]) -> Run:
    """Once it trains, or is over: a scheduler's job may wait first."""
    scheduler = find_scheduler(run.said)
    return scheduler.wait(run, say, known.read) if scheduler else run


@contextlib.contextmanager
def near(run: Run) -> Iterator[Logs]:
    """Where its launcher writes, of a job of several nodes its first one's; and what brings the newest lines there."""
    if scheduler := find_scheduler(run.said):
        with scheduler.near(run) as found:
            yield found
    else:
        yield run.folder / "log", lambda _: None


def logs(run: Run) -> Path:
    with near(run) as (folder, _):
        return folder


def now(run: Run) -> str:
    """The last step that the logs of a running one tell, in words."""
    if not run.running:
        return ""
    steps: list[TrainingStep] = []
    with near(run) as (logs, fetch):
        fetch(True)
        Watch(logs, UnwatchedProcesses(), steps.append).look(final=True)
    return words(steps[-1], of(run)) if steps else ""


def of(run: Run) -> int | None:
    """How many steps it was to make, where the recipe says so."""
    plan = run.said.get("plan")
    steps = plan.get("steps") if isinstance(plan, dict) else None
    most = steps.get("max") if isinstance(steps, dict) else None
    return most if isinstance(most, int) else None


def code(run: Run) -> int:
    """The exit code of the training itself, or 3 where nobody knows how it ended."""
    status = run.said.get("exit")
    found = status.get("code") if isinstance(status, dict) else None
    return found if isinstance(found, int) and run.state != LOST else errors.UNTOLD


def stop(run: Run, wait_s: float = STOP_S) -> Run:
    """As Ctrl-C does.  UsageError when it does not run, StepError when it does not end, or not in time."""
    if run.running and (scheduler := find_scheduler(run.said)):
        return scheduler.stop(run, known.read)
    if run.state == ORPHANED:
        return _end_orphan(run)
    if not run.running or run.pid is None:
        raise UsageError(f"the run {run.id} does not run: it is {run.state}", "envcheck runs lists those that do")
    try:
        os.kill(run.pid, signal.SIGTERM)
    except PermissionError:
        raise StepError(f"process {run.pid} is somebody else's", f"as its owner: kill {run.pid}") from None
    except ProcessLookupError:
        pass
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        now = known.read(run.folder) or run
        if not now.running:
            return now
        time.sleep(0.2)
    raise StepError(f"the run {run.id} has not ended after {wait_s:.0f} s", f"look at it: ps -fp {run.pid}")


def _end_orphan(run: Run) -> Run:
    """Nobody watches it: its processes are ended from here, and its record is finished."""
    if mark := known.find_mark(run.folder, run.said):
        process_tree.end_survivors(Path(mark))
        if left := process_tree.survivors(Path(mark)):
            pids = " ".join(str(process.pid) for process in left)
            raise StepError(f"processes of the run {run.id} are still there: {pids}", f"as their owner: kill -9 {pids}")
    now = record.time_text(datetime.now(timezone.utc))
    ended = {"state": "interrupted", "exit": {"code": errors.INTERRUPTED, "status": None}, "ended": now}
    record.keep(run.folder, {**run.said, **ended})
    return known.read(run.folder) or run

"""Follow a run of another envcheck process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from envcheck.core import errors
from launch.logs.training_step import TrainingStep, describe_step
from launch.run.states import LOST, UNKNOWN
from launch.run.watch import RunWatch
from launch.runs import run_index
from launch.runs.backends import LogSource, find_scheduler
from launch.runs.run_state import Run

LOOK_EVERY_S = 0.3


class UnwatchedProcesses:
    """Stands for the processes of a run that another envcheck supervises; reports nothing."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.peak_bytes = 0

    def update_workers(self) -> None:
        """Do nothing."""

    def has_living_worker(self) -> None:
        """Return None: unknown."""

    def wait_for_death(self, seconds: float) -> None:
        """Return immediately."""

    def close(self) -> None:
        """Do nothing."""


def follow_run(run: Run, say: Callable[[TrainingStep], None]) -> Run:
    """Call `say` for all steps, including past ones, until the run has ended; return the ended run."""
    with open_logs(run) as (logs, fetch):
        watch = RunWatch(logs, UnwatchedProcesses(), say)
        while True:
            now = run_index.read_run(run.folder) or run
            fetch(not now.is_running)
            watch.update_state(final=not now.is_running)
            if not now.is_running:
                return now
            time.sleep(LOOK_EVERY_S)


def wait_until_started(run: Run, say: Callable[[str], None]) -> Run:
    """Return the run once it trains or has ended; a scheduler's job may wait in a queue first."""
    scheduler = find_scheduler(run.said)
    return scheduler.wait_until_started(run, say, run_index.read_run) if scheduler else run


@contextlib.contextmanager
def open_logs(run: Run) -> Iterator[LogSource]:
    """Yield the log folder (of a scheduler's job that of its first node) and a function that fetches new lines."""
    if scheduler := find_scheduler(run.said):
        with scheduler.open_logs(run) as found:
            yield found
    else:
        yield run.folder / "log", lambda _unused: None


def find_log_folder(run: Run) -> Path:
    """Return the folder with the logs of the run."""
    with open_logs(run) as (folder, _unused):
        return folder


def describe_last_step(run: Run) -> str:
    """Return the last step of an active run as text, "" without one."""
    if not run.is_running:
        return ""
    steps = read_steps(run)
    return describe_step(steps[-1], planned_steps(run)) if steps else ""


def read_steps(run: Run) -> list[TrainingStep]:
    """Return the steps in the logs of the run so far."""
    steps: list[TrainingStep] = []
    with open_logs(run) as (logs, fetch):
        fetch(True)
        RunWatch(logs, UnwatchedProcesses(), steps.append).update_state(final=True)
    return steps


def planned_steps(run: Run) -> int | None:
    """Return the planned number of steps, None if unlimited or unknown."""
    plan = run.said.get("plan")
    steps = plan.get("steps") if isinstance(plan, dict) else None
    most = steps.get("max") if isinstance(steps, dict) else None
    return most if isinstance(most, int) else None


def exit_code(run: Run) -> int:
    """Return the exit code of the training, 3 (UNDETERMINED) if unknown."""
    status = run.said.get("exit")
    found = status.get("code") if isinstance(status, dict) else None
    return found if isinstance(found, int) and run.state not in (LOST, UNKNOWN) else errors.UNDETERMINED

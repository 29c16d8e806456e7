"""Follow a run of another envcheck process, and stop it."""

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
from envcheck.core.messages import _
from launch.logs.training_step import TrainingStep, describe_step
from launch.run import container_orphan, host_training, loss_plot, process_tree, record, states
from launch.run.launcher import TrainingEnd, read_tail
from launch.run.states import LOST, ORPHANED, UNKNOWN
from launch.run.trackers import list_trackers
from launch.run.watch import RunWatch
from launch.runs import request_note, run_index
from launch.runs.backends import LogSource, find_scheduler
from launch.runs.run_state import Run

LOOK_EVERY_S = 0.3
STOP_S = 60.0  # a checkpoint may be written first


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


def stop_run(run: Run, wait_s: float = STOP_S) -> Run:
    """Stop the run as Ctrl-C does; UsageError if it is not active, StepError if it cannot be stopped in `wait_s`."""
    if run.is_running and (scheduler := find_scheduler(run.said)):
        return scheduler.stop_run(run, run_index.read_run)
    if run.state == ORPHANED:
        return _end_orphan(run)
    if run.state == UNKNOWN:
        raise UsageError(
            _("run {id} belongs to another user or host", id=run.id),
            _("stop it there: `envcheck runs stop {folder}`", folder=run.folder),
        )
    if not run.is_running or run.pid is None:
        raise UsageError(
            _("run {id} is not running (state: {state})", id=run.id, state=run.state),
            _("list the active runs with `envcheck runs`"),
        )
    try:
        os.kill(run.pid, signal.SIGTERM)
    except PermissionError:
        raise StepError(
            _("process {pid} belongs to another user", pid=run.pid), _("run as its owner: kill {pid}", pid=run.pid)
        ) from None
    except ProcessLookupError:
        pass
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        now = run_index.read_run(run.folder) or run
        if not now.is_running:
            return now
        time.sleep(0.2)
    raise StepError(
        _("run {id} is still active after {wait_s:.0f} s", id=run.id, wait_s=wait_s),
        _("inspect it with `ps -fp {pid}`", pid=run.pid),
    )


def _end_orphan(run: Run) -> Run:
    """End the processes of a run without supervisor, and complete its record."""
    left: tuple[int, ...] = ()
    if run.get_text("container"):
        left = container_orphan.end_processes(run.folder, run.said) or ()
    if mark := run_index.find_mark(run.folder, run.said) or str(run.folder):
        host_training.end_orphan(Path(mark), host_training.find_shim(run.said))
        left += tuple(process.pid for process in process_tree.find_survivors(Path(mark)))
    if left:
        pids = " ".join(map(str, left))
        raise StepError(
            _("processes of run {id} are still alive: {pids}", id=run.id, pids=pids),
            _("run as their owner: kill -9 {pids}", pids=pids),
        )
    _record_orphan_end(run)
    return run_index.read_run(run.folder) or run


def _record_orphan_end(run: Run) -> None:
    """Complete the record by the logs: steps, speed, checkpoints; what only a supervisor measures is absent."""
    now, steps = datetime.now(timezone.utc), read_steps(run)
    end = TrainingEnd(
        how=states.BY_USER,
        status=host_training.read_status(run.folder),
        failed=None,
        steps=tuple(steps),
        peak_bytes=0,
        seconds=_count_seconds(run, now),
        launcher_lines=read_tail(run.folder / "log" / "launcher.log"),
    )
    values = record.build_end_values(end, errors.INTERRUPTED)
    values["peak_memory_mib"].pop("host")  # unknown
    values |= {"ended": record.format_time(now), "checkpoints": record.list_checkpoints(run.folder / "output")}
    record.save_record(run.folder, {**run.said, **values, "trackers": list_trackers(run.folder)})
    with contextlib.suppress(OSError):  # a full disk: the record, which has the losses, is saved
        loss_plot.save_curve(run.folder, steps, run.get_text("recipe"), run.get_text("method"))
    request_note.remove_webhooks(run.folder)


def _count_seconds(run: Run, now: datetime) -> float:
    try:
        return max(0.0, (now - datetime.fromisoformat(run.get_text("started"))).total_seconds())
    except (ValueError, TypeError):
        return 0.0

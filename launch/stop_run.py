"""`envcheck runs stop`: end a run of another envcheck process, or one whose supervisor was killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from datetime import datetime, timezone
from pathlib import Path

from envcheck.core import errors
from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import _
from launch import run_report
from launch.run import container_orphan, host_training, loss_plot, process_tree, record, states
from launch.run.launcher import TrainingEnd, read_tail
from launch.run.states import ORPHANED, UNKNOWN
from launch.run.trackers import list_trackers
from launch.runs import follow, run_index
from launch.runs.backends import find_scheduler
from launch.runs.run_state import Run

STOP_S = 60.0  # a checkpoint may be written first


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
    now, steps = datetime.now(timezone.utc), follow.read_steps(run)
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
    reporter = run_report.build_adopted_reporter(run)
    if steps:
        reporter.metrics.last = steps[-1]
    reporter.report_end(states.BY_USER, errors.INTERRUPTED)


def _count_seconds(run: Run, now: datetime) -> float:
    try:
        return max(0.0, (now - datetime.fromisoformat(run.get_text("started"))).total_seconds())
    except (ValueError, TypeError):
        return 0.0

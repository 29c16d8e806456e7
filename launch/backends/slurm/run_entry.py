"""Slurm jobs in `envcheck runs`: list, show, follow and stop them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from envcheck.core.errors import StepError, UndeterminedError
from envcheck.core.messages import Message, _, fill, mark
from envcheck.core.process import run_command as start
from launch.backends.slurm import control, merge_records, queue
from launch.run import record
from launch.run.states import QUEUED, RUNNING, UNKNOWN
from launch.runs import queue_wait
from launch.runs.backends import LogSource, RunReader
from launch.runs.run_state import Run

STOP_S = 90.0  # KillWait (30 s by default) plus Slurm's own clean-up
# (state of the run, whether its nodes are known, whether Slurm gives a reason) → template.
_STATUS = {
    ("pending", False, False): mark("job {job} is pending"),
    ("pending", False, True): mark("job {job} is pending: {reason}"),
    ("pending", True, False): mark("job {job} is suspended on {nodes}"),
    ("pending", True, True): mark("job {job} is suspended on {nodes}: {reason}"),
    (UNKNOWN, False, False): mark("the state of job {job} is unknown"),
    (UNKNOWN, False, True): mark("the state of job {job} is unknown: {reason}"),
    (RUNNING, False, False): mark("job {job} is running"),
    (RUNNING, False, True): mark("job {job} is running: {reason}"),
    (RUNNING, True, False): mark("job {job} is running on {nodes}"),
    (RUNNING, True, True): mark("job {job} is running on {nodes}: {reason}"),
    ("ended", False, False): mark("job {job} ended with state {state}"),
    ("ended", False, True): mark("job {job} ended with state {state}: {reason}"),
    ("ended", True, False): mark("job {job} ended on {nodes} with state {state}"),
    ("ended", True, True): mark("job {job} ended on {nodes} with state {state}: {reason}"),
}


def job_number(values: dict[str, Any]) -> str:
    """Return the Slurm job id in a record, or "" if the record has none."""
    slurm = values.get("slurm")
    found = slurm.get("job") if isinstance(slurm, dict) else ""
    return found if isinstance(found, str) else ""


def read_run(folder: Path, values: dict[str, Any]) -> Run:
    """Return the current state of a run. The end of a job is saved, because Slurm forgets jobs after some minutes."""
    if values["state"] != RUNNING:
        return Run(folder, values["state"], None, values)
    now = queue.read_job_status(job_number(values))
    if not now.is_over:
        slurm = {**values["slurm"], "state": now.state, "reason": now.reason, "node_list": now.nodes}
        return Run(folder, QUEUED if now.is_waiting else RUNNING, None, {**values, "slurm": slurm})
    nodes = merge_records.read_node_records(folder)
    done = merge_records.build_job_record(values, now.state, nodes, merge_records.read_refused_verdict(folder))
    with contextlib.suppress(OSError):  # the record of another user: shown, but not saved
        record.write_record(folder, done)
    return Run(folder, done["state"], None, done)


@contextlib.contextmanager
def open_logs(run: Run) -> Iterator[LogSource]:
    """Yield the log folder of node 0, which is empty until node 0 starts; the run folder is on a shared file system."""
    first = _find_first_node(run.folder)
    yield first.folder / "log" if first else run.folder / "node-0", lambda _unused: None


def _find_first_node(folder: Path) -> merge_records.NodeRecord | None:
    """Return the record of node 0; other nodes may start before it."""
    return next((node for node in merge_records.read_node_records(folder) if node.number == 0), None)


def wait_until_started(run: Run, say: Callable[[str], None], look: RunReader) -> Run:
    """Wait until node 0 has started or the job has ended, and report each change of state with `say`."""
    if (now := run.said["slurm"]).get("state") == queue.UNKNOWN:
        why = _(
            "cannot determine the state of Slurm job {job}: {reason}",
            job=job_number(run.said),
            reason=now.get("reason"),
        )
        raise UndeterminedError(why, _("run the command again on a host where `squeue` works"))
    return queue_wait.wait_while_queued(
        run, lambda now: now.is_running and not _find_first_node(now.folder), describe_status, say, look
    )


def describe_status(run: Run) -> Message:
    """Return a sentence such as 'job 12 is pending: Resources' or 'job 12 is running on node[01-08]'."""
    slurm = run.said["slurm"]
    nodes, reason = slurm.get("node_list") or "", slurm.get("reason") or ""
    state = "pending" if run.state == QUEUED else RUNNING if run.is_running else "ended"
    if run.is_running and slurm.get("state") == queue.UNKNOWN:
        state, nodes = UNKNOWN, ""
    template = _STATUS[state, bool(nodes), bool(reason)]
    return fill(template, job=job_number(run.said), state=slurm.get("state", ""), nodes=nodes, reason=reason)


def list_node_states(run: Run) -> list[str]:
    """Return how each node of an ended job ended; [] while the job runs."""
    parts = run.said["slurm"].get("parts")
    return [str(part.get("state")) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def stop_run(run: Run, look: RunReader) -> Run:
    """Cancel the job with scancel and wait until it has ended; StepError if that fails or takes longer than STOP_S."""
    cancelled = start(("scancel", job_number(run.said)), timeout_s=control.TIMEOUT_S)
    if cancelled.status:
        raise StepError(
            _("scancel {job}: {reason}", job=job_number(run.said), reason=control.describe_error(cancelled)),
            _("only the owner of the job or a Slurm operator can cancel it"),
        )
    until, now = time.monotonic() + STOP_S, run
    while time.monotonic() < until:
        queue.clear_status_cache()
        now = look(run.folder) or run
        if not now.is_running:
            return now
        time.sleep(0.5)
    job = job_number(run.said)
    raise StepError(
        _("the job did not end within {stop_s:.0f} s of scancel: {status}", stop_s=STOP_S, status=describe_status(now)),
        _("check it with `squeue --jobs={job}`; for a dead node Slurm waits until SlurmdTimeout", job=job),
    )

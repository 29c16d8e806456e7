"""Calls of scontrol with time limits: show and drain nodes, requeue a job without bad nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence

from envcheck.core.messages import NOTHING, Message, _, verbatim
from envcheck.core.process import CommandResult, run_command

TIMEOUT_S = 60.0
REQUEUE_S = 20.0  # Slurm kills the calling script KillWait (30 s by default) after the requeue
PAIR = re.compile(r"(?:^| )([A-Za-z][\w/:]*)=(\S*)")


def run_scontrol(*words: str) -> CommandResult:
    """Run scontrol with these arguments for at most TIMEOUT_S."""
    return run_command(("scontrol", *words), timeout_s=TIMEOUT_S)


def describe_error(result: CommandResult) -> Message:
    """Return why a command failed: its last line of output, no response, or the exit code."""
    lines = [line.strip() for line in (result.err or result.out).splitlines() if line.strip()]
    if result.hung:
        return _("no response")
    return verbatim(lines[-1][:200]) if lines else _("exit code {status}", status=result.status)


def show_job(number: str) -> dict[str, str]:
    """Return the fields of a job; {} if Slurm does not know it (any more)."""
    shown = run_scontrol("--oneliner", "show", "job", number)
    return dict(PAIR.findall(shown.out.splitlines()[0])) if not shown.status and shown.out.strip() else {}


def drain_nodes(nodes: Mapping[str, str]) -> Iterable[Message]:
    """Drain each node with its reason, and yield an error for each failure; only Slurm operators may drain nodes."""
    for node, reason in nodes.items():
        done = run_scontrol("update", f"NodeName={node}", "State=DRAIN", f"Reason=envcheck: {reason}"[:240])
        if done.status:
            yield _("cannot drain node {node}: {reason}", node=node, reason=describe_error(done))


def requeue_without(job: str, components: Sequence[tuple[str, Iterable[str]]]) -> Message:
    """Requeue a job so that each component (job id, bad nodes) excludes its bad nodes; return the error, or NOTHING.

    ExcNodeList can be changed only while a job is pending, so the job is requeued on hold, updated, and released.
    """
    done = run_scontrol("requeuehold", job)
    if done.status:
        return _("cannot requeue the job: {reason}", reason=describe_error(done))
    for component, nodes in components:
        if error := _exclude_nodes(component, nodes):
            return _(
                "the job is held: cannot exclude the failed nodes: {reason}; release it with `scontrol release {job}`",
                reason=error,
                job=job,
            )
    done = run_scontrol("release", job)
    if done.status:
        return _(
            "the job is held: cannot release it: {reason}; release it with `scontrol release {job}`",
            reason=describe_error(done),
            job=job,
        )
    run_scontrol("update", f"JobId={job}", "StartTime=now")  # otherwise it waits until its old credential expires
    return NOTHING


def _exclude_nodes(component: str, nodes: Iterable[str]) -> Message:
    """Add nodes to ExcNodeList; retried until Slurm has the job as pending. Returns the error, or NOTHING."""
    from envcheck.core.host_names import fold_hosts

    before = show_job(component).get("ExcNodeList", "")
    excluded = fold_hosts([*nodes, *_expand_hosts(before)])
    deadline = time.monotonic() + REQUEUE_S
    while True:
        done = run_scontrol("update", f"JobId={component}", f"ExcNodeList={excluded}")
        if not done.status or time.monotonic() > deadline:
            return describe_error(done) if done.status else NOTHING
        time.sleep(0.2)


def _expand_hosts(nodes: str) -> list[str]:
    from envcheck.fleet.hosts import resolve_hosts

    return resolve_hosts([nodes]) if nodes and nodes != "(null)" else []

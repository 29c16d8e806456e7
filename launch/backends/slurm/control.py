"""What envcheck asks of slurmctld besides sinfo: each a call of scontrol, squeue or sbatch, with its limit."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence

from envcheck.core.process import CommandResult, run

TIMEOUT_S = 60.0
REQUEUE_S = 20.0  # within KillWait (30 s where nobody changed it) Slurm ends the script that asks
PAIR = re.compile(r"(?:^| )([A-Za-z][\w/:]*)=(\S*)")


def scontrol(*words: str) -> CommandResult:
    return run(("scontrol", *words), timeout_s=TIMEOUT_S)


def why(told: CommandResult) -> str:
    """The last thing that it complained of."""
    lines = [line.strip() for line in (told.err or told.out).splitlines() if line.strip()]
    return "no answer" if told.hung else lines[-1][:200] if lines else f"status {told.status}"


def job(number: str) -> dict[str, str]:
    """What Slurm still knows of it; {} where it knows nothing (some minutes after its end)."""
    told = scontrol("--oneliner", "show", "job", number)
    return dict(PAIR.findall(told.out.splitlines()[0])) if not told.status and told.out.strip() else {}


def drain(nodes: Mapping[str, str]) -> Iterable[str]:
    """Node → reason; yields what went wrong, which for a user who is no operator is everything."""
    for node, reason in nodes.items():
        told = scontrol("update", f"NodeName={node}", "State=DRAIN", f"Reason=envcheck: {reason}"[:240])
        if told.status:
            yield f"{node} is not drained: {why(told)}"


def requeue_without(number: str, parts: Sequence[tuple[str, Iterable[str]]]) -> str:
    """Back into the queue, and each component (its number, bad nodes) never again on those; "" or what went wrong.

    Which nodes a job shuns can be said while it waits and not while it runs: so it is put back and held, told, let go.
    """
    told = scontrol("requeuehold", number)
    if told.status:
        return f"it cannot be put back: {why(told)}"
    for part, nodes in parts:
        if (wrong := _shun(part, nodes)) and wrong:
            return f"it is held, since the bad nodes could not be excluded: {wrong}"
    told = scontrol("release", number)
    if told.status:
        return f"it is held: {why(told)}; scontrol release {number}"
    scontrol("update", f"JobId={number}", "StartTime=now")  # else it waits until its old credential has run out
    return ""


def _shun(part: str, nodes: Iterable[str]) -> str:
    """Waits until the job counts as one that waits."""
    from envcheck.core.host_names import fold_hosts

    before = job(part).get("ExcNodeList", "")
    every = fold_hosts([*nodes, *_expanded(before)])
    deadline = time.monotonic() + REQUEUE_S
    while True:
        told = scontrol("update", f"JobId={part}", f"ExcNodeList={every}")
        if not told.status or time.monotonic() > deadline:
            return why(told) if told.status else ""
        time.sleep(0.2)


def _expanded(nodes: str) -> list[str]:
    from envcheck.fleet.hosts import chosen

    return chosen([nodes]) if nodes and nodes != "(null)" else []

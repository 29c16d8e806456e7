"""A job of Slurm's as a run among the others: `envcheck runs` lists, shows, follows and stops it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from envcheck.core.errors import StepError, UntoldError
from envcheck.core.process import run as start
from launch.backends.slurm import control, merge_records, queue
from launch.run import record
from launch.runs import waiting
from launch.runs.backends import Logs, Look
from launch.runs.run_state import QUEUED, Run

STOP_S = 90.0  # KillWait, and Slurm's own bookkeeping


def number(said: dict[str, Any]) -> str:
    """The job's, "" for a run that is none of Slurm's."""
    slurm = said.get("slurm")
    found = slurm.get("job") if isinstance(slurm, dict) else ""
    return found if isinstance(found, str) else ""


def read(folder: Path, said: dict[str, Any]) -> Run:
    """As it stands now.  What has ended is written down, so that it is known when Slurm has forgotten it."""
    if said["state"] != "running":
        return Run(folder, said["state"], None, said)
    now = queue.standing(number(said))
    if not now.over:
        slurm = {**said["slurm"], "state": now.state, "reason": now.reason, "on": now.nodes}
        return Run(folder, QUEUED if now.waits else "running", None, {**said, "slurm": slurm})
    there = merge_records.parts(folder)
    done = merge_records.folded(said, now.state, there, merge_records.look(folder))
    with contextlib.suppress(OSError):  # somebody else's: told, and not written
        record.write(folder, done)
    return Run(folder, done["state"], None, done)


@contextlib.contextmanager
def near(run: Run) -> Iterator[Logs]:
    """Those of the node that leads; before it has started there is nothing in them.  All nodes see the folder."""
    first = _first(run.folder)
    yield first.folder / "log" if first else run.folder / "node-0", lambda _: None


def _first(folder: Path) -> merge_records.NodeRecord | None:
    """The part of the node that leads; others may have begun before it."""
    return next((part for part in merge_records.parts(folder) if part.number == 0), None)


def wait(run: Run, say: Callable[[str], None], look: Look) -> Run:
    """Until its first node trains, or it is over."""
    if (now := run.said["slurm"]).get("state") == queue.UNTOLD:
        words = f"Slurm does not say how job {number(run.said)} stands: {now.get('reason')}"
        raise UntoldError(words, "ask again where squeue answers")
    return waiting.wait(run, lambda now: now.running and not _first(now.folder), standing, say, look)


def standing(run: Run) -> str:
    """'job 12 waits: Resources', 'job 12 runs on node[01-08]'"""
    slurm = run.said["slurm"]
    why = f": {slurm['reason']}" if slurm.get("reason") else ""
    where = f" on {slurm['on']}" if slurm.get("on") else ""
    how = "waits" if run.state == QUEUED else "runs" if run.running else f"has ended, {slurm.get('state', '')}"
    return f"job {number(run.said)} {how}{where}{why}"


def states(run: Run) -> list[str]:
    parts = run.said["slurm"].get("parts")
    return [str(part.get("state")) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def stop(run: Run, look: Look) -> Run:
    """scancel: all of its processes on all of its nodes."""
    told = start(("scancel", number(run.said)), timeout_s=control.TIMEOUT_S)
    if told.status:
        raise StepError(f"scancel {number(run.said)}: {control.why(told)}", "its owner, or an operator, may")
    until, now = time.monotonic() + STOP_S, run
    while time.monotonic() < until:
        queue.forget()
        now = look(run.folder) or run
        if not now.running:
            return now
        time.sleep(0.5)
    words = f"job {number(run.said)} has not ended after {STOP_S:.0f} s: {standing(now)}"
    raise StepError(words, f"squeue --jobs={number(run.said)}; a node that is dead is waited for until SlurmdTimeout")

"""A training's status, which a pipe or || true may hide."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Fix, Remark, Script
from envcheck.core.lint.remarks import warn


def pipe_status(context: LintContext) -> Iterator[Remark]:
    """A training whose status is that of what it is piped into."""
    for job in context.jobs:
        command, script = job.command, job.script
        if not command.pipeline or command.last_of_pipe or "pipefail" in command.shell or not job.trains:
            continue
        if b"PIPESTATUS" in script.block.raw:
            continue
        into = next((c for c in script.commands if c.pipeline == command.pipeline and c.last_of_pipe), None)
        name = into.name if into and into.name else "the last command"
        seen = f"the status is that of {name}: a training that failed looks like one that went well"
        yield warn(job, seen, "set -o pipefail", _pipefail(script))


def _pipefail(script: Script) -> Fix | None:
    """A line behind the first one and the comments that follow it."""
    if not script.block.script:
        return None
    raw, at = script.block.raw, 0
    for line in raw.splitlines(keepends=True):
        if not line.startswith(b"#"):
            break
        at += len(line)
    there = script.block.at(at)
    return Fix(((there, there, "set -o pipefail\n"),))


def status_ignored(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        if job.command.lenient and job.trains:
            yield warn(job, "|| true hides that the training failed", "Take it away.")
        elif job.command.background and job.trains and _waited_for(job.script, job.end):
            seen = "wait without a process ends with 0: a training that failed looks like one that went well"
            yield warn(job, seen, "wait $!, right behind it, or of each the number that was kept.")


def _waited_for(script: Script, after: int) -> bool:
    """The script ends with a bare `wait`, whose status is its own, and with none that names what it waits for."""
    waits = [command for command in script.commands if command.name == "wait" and command.start > after]
    ends = bool(waits) and waits[-1].start == max(command.start for command in script.commands)
    return ends and all(len(command.words) == 1 for command in waits)

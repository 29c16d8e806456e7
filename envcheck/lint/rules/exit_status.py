"""Rules about the exit status of a training, which a pipe or || true can hide."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellScript, TextFix
from envcheck.core.messages import _, verbatim


def find_hidden_pipe_status(context: LintContext) -> Iterator[Remark]:
    """Find training commands whose exit status is that of the last command in a pipe."""
    for job in context.jobs:
        command, script = job.command, job.script
        if not command.pipeline or command.last_of_pipe or "pipefail" in command.shell or not job.is_training:
            continue
        if b"PIPESTATUS" in script.block.raw:
            continue
        into = next((c for c in script.commands if c.pipeline == command.pipeline and c.last_of_pipe), None)
        name = into.name if into and into.name else _("the last command")
        seen = _("the exit status comes from {name}: a failed training looks successful", name=name)
        yield warn(job, seen, verbatim("set -o pipefail"), _make_pipefail_fix(script))


def _make_pipefail_fix(script: ShellScript) -> TextFix | None:
    """Insert a line after the first line and the comments that follow it."""
    if not script.block.is_script:
        return None
    raw, at = script.block.raw, 0
    for line in raw.splitlines(keepends=True):
        if not line.startswith(b"#"):
            break
        at += len(line)
    there = script.block.map_to_file(at)
    return TextFix(((there, there, "set -o pipefail\n"),))


_HARMLESS = frozenset(["echo", "printf", "date", "hostname", "true", "exit"])


def _find_unawaited_batch(script: ShellScript, trainings: Collection[int]) -> Iterator[Remark]:
    """Find a batch script that ends while its last program runs in the background: Slurm then ends the job."""
    if not any(text.startswith("#SBATCH") for _unused, _unused, text in script.comments):
        return
    last = next((each for each in reversed(script.commands) if each.name not in _HARMLESS), None)
    if last is None or not last.background or last.elsewhere or last.function or last.branch or not last.words:
        return
    if not _waits_in_trap(script):
        seen = _("the batch script ends while this runs in the background: Slurm ends the job with it")
        do = _("Add a line with wait at the end.")
        yield warn_or_fail(last.start in trainings or last.name == "srun", last.words[0], seen, do)


def _waits_in_trap(script: ShellScript) -> bool:
    return any("wait" in text for each in script.commands if each.name == "trap" for text in each.list_texts())


def find_ignored_status(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        trainings = [job.command.start for job in context.jobs if job.script is script and job.is_training]
        yield from _find_unawaited_batch(script, trainings)
    for job in context.jobs:
        if job.command.lenient and job.is_training:
            yield warn(job, _("|| true hides a failed training"), _("Remove it."))
        elif job.command.background and job.is_training and _ends_with_bare_wait(job.script, job.end):
            seen = _("wait without a process ID always returns 0: a failed training looks successful")
            yield warn(job, seen, _("Run wait $! right after the command, or save each process ID and wait for it."))


def _ends_with_bare_wait(script: ShellScript, after: int) -> bool:
    """Whether the script ends with `wait` without a process ID, and never waits for a specific one."""
    waits = [command for command in script.commands if command.name == "wait" and command.start > after]
    ends = bool(waits) and waits[-1].start == max(command.start for command in script.commands)
    return ends and all(len(command.words) == 1 for command in waits)

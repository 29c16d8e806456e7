"""Carry out a plan: each step is journalled, applied and verified; then the state file is written."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.messages import Message, _, join, verbatim
from envcheck.settings.site_access import show_values
from installers.bundle import offline
from installers.plan.step import Plan, Step
from installers.provisioner import Provisioner
from installers.software.pip_runner import PipError
from installers.state import journal, lock, state_file
from installers.state.progress import ProgressEvent, Report
from installers.steps import dispatch
from installers.steps.work import StepContext

Ask = Callable[[Plan], bool]
LOST = _("check how the container ended with `docker ps -a` and `docker logs`, then run the same command again")
MEANINGS = {
    errno.ENOSPC: (_("no space left on the disk"), _("free disk space, then run the same command again")),
    errno.EDQUOT: (_("disk quota exceeded"), _("free disk space, then run the same command again")),
    errno.EROFS: (_("the file system is read-only"), _("choose another folder with --into, or set ENVCHECK_HOME")),
    errno.EACCES: (
        _("permission denied"),
        _("choose another folder with --into, or set ENVCHECK_HOME to a folder that you can write to"),
    ),
    errno.EPERM: (
        _("permission denied"),
        _("choose another folder with --into, or set ENVCHECK_HOME to a folder that you can write to"),
    ),
}


@dataclass(frozen=True)
class ProvisionOutcome:
    """The plan that was shown, the steps that were carried out (name, result), and whether the user declined."""

    plan: Plan
    performed: tuple[tuple[str, Message], ...] = ()
    declined: bool = False


def provision_target(ground: Provisioner, *, ask: Ask, report: Report) -> ProvisionOutcome:
    """Carry out the missing steps after `ask`, called with the plan, returned True.

    Raises EnvcheckError if an obstacle prevents it, StepError (exit code 4) if a step fails; both are in the journal.
    """
    shown = ground.make_current_plan()
    shown = replace(shown, obstacles=(*shown.obstacles, *(ground.list_refusals() if shown.steps else ())))
    if shown.first_obstacle:
        raise BlockedError(shown)
    if not shown.steps:
        return ProvisionOutcome(shown)
    if not ask(shown):
        return ProvisionOutcome(shown, declined=True)
    try:
        with lock.hold_lock(ground.folder, lambda text: report(ProgressEvent("say", verbatim(text)))) as held:
            return _perform_steps(ground, held, report, shown)
    except OSError as err:
        raise _explain_error(err, ground.folder) from None


class StepFailedError(StepError):
    """A step failed; `outcome` has the plan and the steps carried out before."""

    def __init__(self, why: StepError, outcome: ProvisionOutcome) -> None:
        super().__init__(why.message, why.next_step)
        self.outcome = outcome


class BlockedError(EnvcheckError):
    """An obstacle prevents the `plan`."""

    def __init__(self, plan: Plan) -> None:
        assert plan.first_obstacle
        more = [_("also: {why}\n  next: {remedy}", why=each.why, remedy=each.remedy) for each in plan.obstacles[1:]]
        super().__init__(plan.first_obstacle.why, join("\n  ", [plan.first_obstacle.remedy, *more]))
        self.plan, self.code = plan, plan.first_obstacle.code


def _perform_steps(ground: Provisioner, held: int, report: Report, shown: Plan) -> ProvisionOutcome:
    """Carry out the plan under the lock.

    It is made again first: another run may have finished before the user answered.  It is updated after the image was
    loaded, because the container needs its name in this engine, and after the container was started, because only then
    its packages are known.
    """
    performed: list[tuple[str, Message]] = []
    try:
        _perform_each(ground, held, report, shown, performed)
    except StepError as err:
        raise StepFailedError(err, ProvisionOutcome(shown, tuple(performed))) from None
    return ProvisionOutcome(shown, tuple(performed))


def _perform_each(
    ground: Provisioner, held: int, report: Report, shown: Plan, performed: list[tuple[str, Message]]
) -> None:
    recipe, folder = ground.recipe, ground.folder
    with ground.open_work(held, report) as work:
        before = work.target.read_environment() if not shown.container else None
        ours = state_file.load_state(folder) or state_file.EnvironmentState(
            made=before.is_ours if before else True, proofs={recipe.name: state_file.RecipeProof()}
        )
        todo = _plan_again(ground)
        _unpack_bundle(work, ours)
        if todo and not ground.site.is_empty:
            state_file.save_state(folder, state_file.load_state(folder) or ours)
            journal.write_entry(folder, "site", "used", values=show_values(ground.site))
        while todo:
            step, *todo = todo
            before_it = state_file.load_state(folder) or ours
            changes = step.changes_environment
            running = (
                state_file.begin_step(before_it, recipe.name, step.name) if changes else replace(before_it, doing="")
            )
            state_file.save_state(folder, running)
            report(ProgressEvent("begin", step.title))
            performed.append((step.name, _perform_step(step, work, before_it)))
            report(ProgressEvent("end", performed[-1][1]))
            after = state_file.load_state(folder)
            assert after
            state_file.save_state(folder, replace(after, doing=""))
            if step.reveals:
                todo = _replan_after(step, ground)


def _replan_after(step: Step, ground: Provisioner) -> list[Step]:
    """Return the steps that are still missing; raise StepError if `step` is among them: it had no lasting effect."""
    todo = _plan_again(ground)
    if lost := next((each for each in todo if type(each) is type(step)), None):
        raise StepError(_("{title}: completed, but the check still fails: {why}", title=step.title, why=lost.why), LOST)
    return todo


def _unpack_bundle(work: StepContext, ours: state_file.EnvironmentState) -> None:
    if work.effective_supply.bundle:
        state_file.save_state(work.folder, state_file.load_state(work.folder) or ours)
        offline.unpack_parts(work.effective_supply, work.folder)


def _plan_again(ground: Provisioner) -> list[Step]:
    now = ground.make_current_plan()
    if now.first_obstacle:
        raise BlockedError(now)
    return list(now.steps)


def _perform_step(step: Step, work: StepContext, before: state_file.EnvironmentState) -> Message:
    """Carry out a step and journal its start and end; if it failed without a change, restore the state `before`."""
    try:  # including the first entry, so that a Ctrl-C right after it is recorded
        journal.write_entry(work.folder, step.name, "begun", what=step.title)
        done = dispatch.perform_step(step, work)
    except BaseException as err:
        failed = isinstance(err, Exception)
        with contextlib.suppress(OSError):  # if the disk is full, the reason must still be reported
            journal.write_entry(work.folder, step.name, "failed" if failed else "interrupted", why=str(err)[:4000])
        if isinstance(err, PipError) and err.harmless:
            state_file.save_state(work.folder, replace(before, doing=""))
        if isinstance(err, StepError):
            raise StepError(
                _("{title}: {message}", title=step.title, message=err.message),
                _with_journal(err.next_step, work.folder),
            ) from None
        raise
    journal.write_entry(work.folder, step.name, "done", result=done)
    return done


def _explain_error(err: OSError, folder: Path) -> StepError:
    why, next_step = MEANINGS.get(err.errno or 0, (verbatim(err.strerror or str(err)), _("run the same command again")))
    return StepError(_("{filename}: {why}", filename=err.filename or folder, why=why), _with_journal(next_step, folder))


def _with_journal(next_step: Message, folder: Path) -> Message:
    path = journal.journal_path(folder)
    return (
        _("{next_step} (journal: {path})", next_step=next_step, path=path)
        if path.exists() and str(path) not in next_step
        else next_step
    )

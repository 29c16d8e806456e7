"""A plan's deeds: one after another, each journalled, performed, proved at once; then the mark."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import EnvcheckError, StepError
from installers.bundle import from_bundle
from installers.plan.step import Plan, Step
from installers.provisioner import Provisioner
from installers.software.packages import PipError
from installers.state import journal, lock, state_file
from installers.state.progress import Event, Report
from installers.steps import dispatch
from installers.steps.work import Work

Ask = Callable[[Plan], bool]
LOST = "docker ps -a shows how the container ended, docker logs may say why; then repeat the same command"
MEANINGS = {
    errno.ENOSPC: ("the disk is full", "make room, then repeat the same command"),
    errno.EDQUOT: ("the disk quota is used up", "make room, then repeat the same command"),
    errno.EROFS: ("the disk is read-only", "choose another --into, or set ENVCHECK_HOME"),
    errno.EACCES: ("writing is not permitted", "choose another --into, or set ENVCHECK_HOME to a folder of yours"),
    errno.EPERM: ("writing is not permitted", "choose another --into, or set ENVCHECK_HOME to a folder of yours"),
}


@dataclass(frozen=True)
class ProvisionOutcome:
    """How it went: the plan that was shown, what was performed (step, words), and whether somebody said no."""

    plan: Plan
    performed: tuple[tuple[str, str], ...] = ()
    declined: bool = False

    @property
    def python(self) -> Path:
        return self.plan.folder / "bin" / "python"


def provision(ground: Provisioner, *, ask: Ask, report: Report) -> ProvisionOutcome:
    """Do what is missing, after `ask` was shown the plan and said yes.

    Raises EnvcheckError where it cannot begin, StepError (exit 4) where a step failed; the journal tells which.
    """
    shown = ground.look()
    if shown.obstacle:
        raise BlockedError(shown)
    if not shown.steps:
        return ProvisionOutcome(shown)
    if not ask(shown):
        return ProvisionOutcome(shown, declined=True)
    try:
        with lock.held(ground.folder, lambda text: report(Event("say", text))) as held:
            return _perform(ground, held, report, shown)
    except OSError as err:
        raise _in_words(err, ground.folder) from None


class BrokenOffError(StepError):
    """A step failed; `outcome` is what was planned, and what was done before."""

    def __init__(self, why: StepError, outcome: ProvisionOutcome) -> None:
        super().__init__(why.message, why.next_step)
        self.outcome = outcome


class BlockedError(EnvcheckError):
    """Nothing can be begun; `plan` says what would have been done."""

    def __init__(self, plan: Plan) -> None:
        assert plan.obstacle
        more = "".join(f"\n  and {each.why}\n  next: {each.remedy}" for each in plan.obstacles[1:])
        super().__init__(plan.obstacle.why, plan.obstacle.remedy + more)
        self.plan, self.code = plan, plan.obstacle.code


def _perform(ground: Provisioner, held: int, report: Report, shown: Plan) -> ProvisionOutcome:
    """The plan is made again under the lock: another run may have ended between the question and the answer.  And once
    more when the image was loaded, by whose name in this engine the container is drawn, and when the container runs:
    what its image holds is seen only then."""
    performed: list[tuple[str, str]] = []
    try:
        _each(ground, held, report, shown, performed)
    except StepError as err:
        raise BrokenOffError(err, ProvisionOutcome(shown, tuple(performed))) from None
    return ProvisionOutcome(shown, tuple(performed))


def _each(ground: Provisioner, held: int, report: Report, shown: Plan, performed: list[tuple[str, str]]) -> None:
    recipe, folder = ground.recipe, ground.folder
    with ground.work(held, report) as work:
        before = work.target.environment() if not shown.boxed else None
        ours = state_file.load(folder) or state_file.EnvironmentState(
            made=before.ours if before else True, proofs={recipe.name: state_file.Proof()}
        )
        todo = _plan_again(ground)
        _unpack(work, ours)
        while todo:
            step, *todo = todo
            before_it = state_file.load(folder) or ours
            changes = step.changes_environment
            begun = state_file.begin(before_it, recipe.name, step.name) if changes else replace(before_it, doing="")
            state_file.save(folder, begun)
            report(Event("begin", step.title))
            performed.append((step.name, _one(step, work, before_it)))
            report(Event("end", performed[-1][1]))
            after = state_file.load(folder)
            assert after
            state_file.save(folder, replace(after, doing=""))
            if step.reveals:
                todo = _behind(step, ground)


def _behind(step: Step, ground: Provisioner) -> list[Step]:
    """What is missing now; not this step once more, as of a container that ends soon after each start."""
    todo = _plan_again(ground)
    if lost := next((each for each in todo if type(each) is type(step)), None):
        raise StepError(f"{step.title}: done, and missing again at once: {lost.why}", LOST)
    return todo


def _unpack(work: Work, ours: state_file.EnvironmentState) -> None:
    if work.terms.bundle:
        state_file.save(work.folder, state_file.load(work.folder) or ours)
        from_bundle.unpack(work.terms, work.folder)


def _plan_again(ground: Provisioner) -> list[Step]:
    now = ground.look()
    if now.obstacle:
        raise BlockedError(now)
    return list(now.steps)


def _one(step: Step, work: Work, before: state_file.EnvironmentState) -> str:
    """The step, its beginning and its end in the journal, whatever the end; the mark as `before` if nothing changed."""
    try:  # the beginning, too: a Ctrl-C right behind it is told as one
        journal.write(work.folder, step.name, "begun", what=step.title)
        done = dispatch.perform(step, work)
    except BaseException as err:
        failed = isinstance(err, Exception)
        with contextlib.suppress(
            OSError
        ):  # a disk that is full for pip is full for the journal; the reason must get out
            journal.write(work.folder, step.name, "failed" if failed else "interrupted", why=str(err)[:4000])
        if isinstance(err, PipError) and err.harmless:
            state_file.save(work.folder, replace(before, doing=""))
        if isinstance(err, StepError):
            raise StepError(f"{step.title}: {err.message}", _with_journal(err.next_step, work.folder)) from None
        raise
    journal.write(work.folder, step.name, "done", result=done)
    return done


def _in_words(err: OSError, folder: Path) -> StepError:
    why, next_step = MEANINGS.get(err.errno or 0, (err.strerror or str(err), "repeat the same command"))
    return StepError(f"{err.filename or folder}: {why}", _with_journal(next_step, folder))


def _with_journal(next_step: str, folder: Path) -> str:
    path = journal.path(folder)
    return f"{next_step} (journal: {path})" if path.exists() and str(path) not in next_step else next_step

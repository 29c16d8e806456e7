"""A plan's deeds: one after another, each journalled, performed, proved at once; then the mark."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from envcheck.core.errors import EnvcheckError, StepError
from installers.bundle import lock_notes
from installers.locks import lockfile
from installers.recipes.recipe import Recipe
from installers.software import builds
from installers.software.packages import PipError
from installers.state import environment, journal, lock, state_file
from installers.state.progress import Event, Report
from installers.steps import perform
from installers.steps.model import Plan, Step
from installers.steps.work import Work

Ask = Callable[[Plan], bool]
APART = ("weights",)  # what is cut off there leaves the environment as it was proved
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


class Provisioner(Protocol):
    """Where a recipe is provisioned: a virtual environment of this host, or the recipe's container."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def folder(self) -> Path:
        """Where our notes stand, and the environment, if it is one."""

    def look(self) -> Plan:
        """What would have to be done now; changes nothing."""

    def work(self, lock: int, report: Report) -> AbstractContextManager[Work]:
        """What the steps share, for as long as they are performed."""


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
            made=before.ours if before else True, recipe=recipe.name
        )
        todo = _plan_again(ground)
        _unpack(work, ours)
        while todo:
            step, *todo = todo
            doing = "" if step.name in APART else step.name
            state_file.save(folder, replace(state_file.load(folder) or ours, doing=doing, recipe=recipe.name))
            report(Event("begin", step.title))
            performed.append((step.name, _one(step, work)))
            report(Event("end", performed[-1][1]))
            _settle(step, work)
            if step.name in ("load", "container"):
                todo = _behind(step, ground)


def _behind(step: Step, ground: Provisioner) -> list[Step]:
    """What is missing now; not this step once more, as of a container that ends soon after each start."""
    todo = _plan_again(ground)
    if lost := next((each for each in todo if each.name == step.name), None):
        raise StepError(f"{step.title}: done, and missing again at once: {lost.why}", LOST)
    return todo


def _unpack(work: Work, ours: state_file.EnvironmentState) -> None:
    """The bundle's parts, noted for an undo before they are there."""
    if bundle := work.terms.bundle:
        state_file.save(work.folder, state_file.load(work.folder) or ours)
        journal.write(work.folder, "bundle", "made", deed=f"parts {bundle.folder}")
        assert work.terms.parts


def _plan_again(ground: Provisioner) -> list[Step]:
    now = ground.look()
    if now.obstacle:
        raise BlockedError(now)
    return list(now.steps)


def _one(step: Step, work: Work) -> str:
    """The step, its beginning and its end in the journal, whatever the end."""
    try:  # the beginning, too: a Ctrl-C right behind it is told as one
        journal.write(work.folder, step.name, "begun", what=step.title)
        done = perform.do(step, work)
    except BaseException as err:
        failed = isinstance(err, Exception)
        with contextlib.suppress(
            OSError
        ):  # a disk that is full for pip is full for the journal; the reason must get out
            journal.write(work.folder, step.name, "failed" if failed else "interrupted", why=str(err)[:4000])
        if isinstance(err, PipError) and err.harmless and not step.again:
            state_file.save(
                work.folder,
                replace(state_file.load(work.folder) or state_file.EnvironmentState(False, work.recipe.name), doing=""),
            )
        if isinstance(err, StepError):
            raise StepError(f"{step.title}: {err.message}", _with_journal(err.next_step, work.folder)) from None
        raise
    journal.write(work.folder, step.name, "done", result=done)
    return done


def _settle(step: Step, work: Work) -> None:
    """The mark after a good step: nothing is being done; after the proof, what was proved."""
    now = state_file.load(work.folder)
    assert now
    if step.name == "proof":
        versions = dict(work.target.environment().packages)
        now = replace(now, digest=environment.digest(work.terms.recipe), proven=versions)
        _keep_lock(work)
    elif step.name not in APART:
        now = replace(now, digest="")  # what was proved before is not proved any more
    state_file.save(work.folder, replace(now, doing=""))


def _keep_lock(work: Work) -> None:
    recipe, there = work.terms.recipe, work.target.environment()
    before, commits = lock_notes.load(work.folder, recipe), lock_notes.commits(work.recipe, work.target)
    made = builds.results(work.target, builds.of_role(work.recipe, work.role))
    settled = lock_notes.settled(before, there.packages, there.python, perform.boxed_image(work), commits, made)
    lockfile.write(lock_notes.path(work.folder), settled)


def _in_words(err: OSError, folder: Path) -> StepError:
    why, next_step = MEANINGS.get(err.errno or 0, (err.strerror or str(err), "repeat the same command"))
    return StepError(f"{err.filename or folder}: {why}", _with_journal(next_step, folder))


def _with_journal(next_step: str, folder: Path) -> str:
    path = journal.path(folder)
    return f"{next_step} (journal: {path})" if path.exists() and str(path) not in next_step else next_step

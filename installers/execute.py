"""A plan's deeds: one after another, each journalled, performed, proved at once; then the mark."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.errors import EnvcheckError, StepError, UsageError
from installers import environment, journal, lock, mark, place, steps
from installers.packages import PipError
from installers.plan import Plan, Step, plan
from installers.progress import Event, Report
from installers.recipe import Recipe

Ask = Callable[[Plan], bool]
MEANINGS = {
    errno.ENOSPC: ("the disk is full", "make room, then repeat the same command"),
    errno.EDQUOT: ("the disk quota is used up", "make room, then repeat the same command"),
    errno.EROFS: ("the disk is read-only", "choose another --into, or set ENVCHECK_HOME"),
    errno.EACCES: ("writing is not permitted", "choose another --into, or set ENVCHECK_HOME to a folder of yours"),
    errno.EPERM: ("writing is not permitted", "choose another --into, or set ENVCHECK_HOME to a folder of yours"),
}


@dataclass(frozen=True)
class Outcome:
    """How it went: the plan that was shown, what was performed (step, words), and whether somebody said no."""

    plan: Plan
    performed: tuple[tuple[str, str], ...] = ()
    declined: bool = False

    @property
    def python(self) -> Path:
        return self.plan.folder / "bin" / "python"


def look(recipe: Recipe, folder: Path, *, in_container: bool = False, driver: str | None = None) -> Plan:
    """What would have to be done now; changes nothing."""
    host = place.read(folder, recipe.libraries)
    return plan(recipe, environment.read(folder), host, in_container=in_container, driver=driver)


def provision(
    recipe: Recipe,
    folder: Path,
    *,
    ask: Ask,
    report: Report,
    in_container: bool = False,
    driver: str | None = None,
) -> Outcome:
    """Do what is missing, after `ask` was shown the plan and said yes.

    Raises EnvcheckError where it cannot begin, StepError (exit 4) where a step failed; the journal tells which.
    """
    folder = folder.absolute()
    shown = look(recipe, folder, in_container=in_container, driver=driver)
    if shown.obstacle:
        raise _cannot(shown)
    if not shown.steps:
        return Outcome(shown)
    if not ask(shown):
        return Outcome(shown, declined=True)
    try:
        with lock.held(folder, lambda text: report(Event("say", text))) as held:
            return _perform(recipe, folder, held, report, shown)
    except OSError as err:
        raise _in_words(err, folder) from None


def _cannot(shown: Plan) -> EnvcheckError:
    assert shown.obstacle
    kind = UsageError if shown.obstacle.code == UsageError.code else EnvcheckError
    return kind(shown.obstacle.why, shown.obstacle.remedy)


def _perform(recipe: Recipe, folder: Path, held: int, report: Report, shown: Plan) -> Outcome:
    """The plan is made again under the lock: another run may have ended between the question and the answer."""
    now = look(recipe, folder)
    if now.obstacle:
        raise _cannot(now)
    work = steps.Work(recipe, folder, place.read(folder), held, report)
    before = environment.read(folder)
    ours = before.mark or mark.Mark(made=before.ours, recipe=recipe.name)
    performed = []
    for step in now.steps:
        mark.save(folder, replace(mark.load(folder) or ours, doing=step.name, recipe=recipe.name))
        report(Event("begin", step.title))
        performed.append((step.name, _one(step, work)))
        report(Event("end", performed[-1][1]))
        _settle(step, recipe, folder)
    return Outcome(shown, tuple(performed))


def _one(step: Step, work: steps.Work) -> str:
    """The step, its beginning and its end in the journal, whatever the end."""
    journal.write(work.folder, step.name, "begun", what=step.title)
    try:
        done = steps.do(step, work)
    except BaseException as err:
        failed = isinstance(err, Exception)
        with contextlib.suppress(
            OSError
        ):  # a disk that is full for pip is full for the journal; the reason must get out
            journal.write(work.folder, step.name, "failed" if failed else "interrupted", why=str(err)[:4000])
        if isinstance(err, PipError) and err.harmless and not step.again:
            _settle(step, work.recipe, work.folder)
        if isinstance(err, StepError):
            raise StepError(f"{step.title}: {err.message}", _with_journal(err.next_step, work.folder)) from None
        raise
    journal.write(work.folder, step.name, "done", result=done)
    return done


def _settle(step: Step, recipe: Recipe, folder: Path) -> None:
    """The mark after a good step: nothing is being done; after the proof, what was proved."""
    now = mark.load(folder)
    assert now
    if step.name == "proof":
        versions = dict(environment.read(folder).packages)
        now = replace(now, digest=environment.digest(recipe), proven=versions)
    mark.save(folder, replace(now, doing=""))


def _in_words(err: OSError, folder: Path) -> StepError:
    why, next_step = MEANINGS.get(err.errno or 0, (err.strerror or str(err), "repeat the same command"))
    return StepError(f"{err.filename or folder}: {why}", _with_journal(next_step, folder))


def _with_journal(next_step: str, folder: Path) -> str:
    path = journal.path(folder)
    return f"{next_step} (journal: {path})" if path.exists() and str(path) not in next_step else next_step

"""Check whether this machine is suitable for the recipe, with the same checks as for a job.  Pure.

A certain mismatch is an obstacle: a recipe for another architecture, or one that needs more cards, would fail in its
verification hours later.  Cards that are not visible yet are no obstacle: their driver may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envcheck.core.facts import Facts
from envcheck.core.messages import NOTHING, Message, _, join, mark
from envcheck.core.model import Finding, Status
from envcheck.job.judgement import OF_MACHINE, judge_idle
from envcheck.job.requirements.software_versions import compare_version
from envcheck.job.suitability import AREA
from envcheck.vendors import VENDORS
from installers.plan.requirement import Obstacle
from installers.recipes.manual_steps import ManualStep
from installers.recipes.recipe import Recipe, RecipeJob

# Requirements that provisioning cannot change.  Driver, toolkit and packages are not among them: it installs them, or
# the user does.  Memory and disk usage may be different when the job starts.
BLOCKING = frozenset(f"{AREA}.{name}" for name in OF_MACHINE)
# Failures that block the start of training, but not the installation; and what is worth knowing before a long download.
PASSING = ("job.memory", "job.host_memory", "job.shm")
BEFORE_PULL = ("job.image_versions",)
# A job, with the requirements that this machine can never meet.
JudgedJob = tuple[RecipeJob, tuple[Finding, ...]]


def judge_jobs(recipe: Recipe, here: Facts | None, role: str = "") -> tuple[JudgedJob, ...]:
    """Return the jobs of the role; none if `here` is None, without which nothing can be judged."""
    if here is None:
        return ()
    jobs = [job for job in recipe.jobs if job.role in ("", role)]
    judged = ((job, judge_idle((recipe, job), here).findings) for job in jobs)
    failed = ((job, (f for f in found if f.name in BLOCKING and f.status is Status.FAIL)) for job, found in judged)
    return tuple((job, tuple(found)) for job, found in failed)


def find_obstacles(judged: Sequence[JudgedJob]) -> Iterator[Obstacle]:
    """Yield the obstacles if no job of the recipe can run here."""
    if all(found for _unused, found in judged):
        each = ((job, finding) for job, found in judged for finding in found)
        yield from dict.fromkeys(Obstacle(_name_job(*one, judged), _format_remedy(one[1])) for one in each)


def list_cautions(judged: Sequence[JudgedJob], findings: Sequence[Finding] = ()) -> Iterator[Message]:
    """Yield notes: the methods that this machine cannot run, if it can run others; else which of the selected job's
    `findings` block its start now, but not the installation.  A driver that is old for the image comes first.
    """
    yield from (_advise(finding) for finding in findings if finding.name in BEFORE_PULL and finding.status.is_problem)
    short = [(job, found) for job, found in judged if found]
    if judged and not short:
        yield from (finding.seen for finding in findings if finding.name in PASSING and finding.status is Status.FAIL)
    for job, found in short if len(short) < len(judged) else ():
        yield from (_("not suitable for {job}: {seen}", job=_format_job(job), seen=finding.seen) for finding in found)


def _advise(finding: Finding) -> Message:
    return _("{seen}. {remedy}", seen=finding.seen, remedy=_format_remedy(finding))


def list_manual_driver(recipe: Recipe, driver: str | None) -> Iterator[ManualStep]:
    """Yield a manual step if the driver is missing or too old; the user downloads it, as vendors require a licence."""
    found = compare_version(_("driver"), recipe.driver_minimum, driver, recipe.name, _get_driver_line(recipe))
    if found.status not in (Status.OK, Status.NOT_APPLICABLE):
        command = f"envcheck provision --recipe {recipe.name} --install-driver FILE.run"
        yield ManualStep(mark("driver"), _("{seen}; install the vendor's file:", seen=found.seen), (command,), True)


def satisfied_driver(recipe: Recipe, driver: str | None) -> Iterator[Message]:
    """Yield a message about the driver if it is new enough."""
    found = compare_version(_("driver"), recipe.driver_minimum, driver, recipe.name, _get_driver_line(recipe))
    if found.status is Status.OK:
        yield found.seen


def _get_driver_line(recipe: Recipe) -> str:
    vendor = VENDORS.get(recipe.device)
    return vendor.driver_line if vendor else ""


def _name_job(job: RecipeJob, finding: Finding, judged: Sequence[JudgedJob]) -> Message:
    """Return the finding's message, with the method in front unless it applies to all methods."""
    common = all(finding.seen in [other.seen for other in found] for _unused, found in judged)
    return finding.seen if common else _("{job}: {seen}", job=_format_job(job), seen=finding.seen)


def _format_job(job: RecipeJob) -> str:
    return " ".join(filter(None, (job.method, job.variant)))


def _format_remedy(finding: Finding) -> Message:
    remedy = finding.remedy
    if remedy is None:
        return NOTHING
    return join(" ", (remedy.words, *(_("Run {command}.", command=command) for command in remedy.commands)))

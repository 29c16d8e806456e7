"""Whether this machine is one that the recipe is for, by the one judge of a job's requirements.  Pure.

What is certain is an obstacle: a recipe that is for another architecture, or that needs more cards than there are,
would fail at its proof, hours later.  Cards that nobody can see yet are no obstacle: their driver may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status
from envcheck.job.judgement import OF_MACHINE, judge_idle
from envcheck.job.requirements.software_versions import compare_version
from envcheck.job.suitability import AREA
from installers.plan.requirement import Obstacle
from installers.recipes.by_hand import ByHand
from installers.recipes.recipe import Recipe, RecipeJob

# What provisioning cannot change.  Driver, toolkit and packages are what it installs, or leaves to a person; who uses
# memory, and how full a disk is, may be otherwise when the job starts.
BLOCKING = frozenset(f"{AREA}.{name}" for name in OF_MACHINE)
PASSING = ("job.memory", "job.host_memory", "job.shm")  # blocks the training as things are, and no installation


def obstacles(recipe: Recipe, here: Facts | None, role: str = "") -> Iterator[Obstacle]:
    """What is in the way of each job; `here` None: nobody looked, since a training's own gates judge."""
    judged = _judge_jobs(recipe, here, role) if here else []
    if all(found for _, found in judged):
        each = ((job, finding) for job, found in judged for finding in found)
        yield from dict.fromkeys(Obstacle(_name_job(*one, judged), _format_remedy(one[1])) for one in each)


def mind(recipe: Recipe, here: Facts | None, role: str = "", findings: Sequence[Finding] = ()) -> Iterator[str]:
    """The methods that this machine cannot run, where it runs another; of the `findings` of the job that is meant, what
    blocks its start now, and not its installation."""
    judged = _judge_jobs(recipe, here, role) if here else []
    short = [(job, found) for job, found in judged if found]
    if here and not short:
        yield from (finding.seen for finding in findings if finding.name in PASSING and finding.status is Status.FAIL)
    for job, found in short if len(short) < len(judged) else ():
        yield from (f"not for {_format_job(job)}: {finding.seen}" for finding in found)


def driver_by_hand(recipe: Recipe, driver: str | None) -> Iterator[ByHand]:
    """A driver is installed from a file that a person fetches, since the vendors ask for a licence."""
    found = compare_version("driver", recipe.driver_minimum, driver, recipe.name)
    if found.status not in (Status.OK, Status.NOT_APPLICABLE):
        command = f"envcheck provision --recipe {recipe.name} --driver FILE.run"
        yield ByHand("driver", f"{found.seen}; with the vendor's file:", (command,), True)


def satisfied_driver(recipe: Recipe, driver: str | None) -> Iterator[str]:
    """The driver, where it is new enough."""
    found = compare_version("driver", recipe.driver_minimum, driver, recipe.name)
    if found.status is Status.OK:
        yield found.seen


def _judge_jobs(recipe: Recipe, here: Facts, role: str) -> list[tuple[RecipeJob, tuple[Finding, ...]]]:
    """The jobs of the role, each with the requirements that this machine can never meet."""
    jobs = [job for job in recipe.jobs if job.role in ("", role)]
    judged = ((job, judge_idle((recipe, job), here).findings) for job in jobs)
    return [(job, tuple(f for f in found if f.name in BLOCKING and f.status is Status.FAIL)) for job, found in judged]


def _name_job(job: RecipeJob, finding: Finding, judged: list[tuple[RecipeJob, tuple[Finding, ...]]]) -> str:
    """The sentence, and for which method it is where it is not for all."""
    common = all(finding.seen in [other.seen for other in found] for _, found in judged)
    return finding.seen if common else f"{_format_job(job)}: {finding.seen}"


def _format_job(job: RecipeJob) -> str:
    return " ".join(filter(None, (job.method, job.variant)))


def _format_remedy(finding: Finding) -> str:
    remedy = finding.remedy
    return " ".join((remedy.words, *(f"Run {command}." for command in remedy.commands))) if remedy else ""

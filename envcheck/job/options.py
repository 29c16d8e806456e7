"""A recipe's job with the request's nodes, cards, data, steps and options of the training."""

from __future__ import annotations

from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.job.request import JobRequest
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering import dialects, schema, shape, user_options, validate
from launch.rendering.rows import rows
from launch.rendering.schema import Versions

STEP_OPTIONS = ("steps", "max_steps")


def apply_options(request: JobRequest, recipe: Recipe, job: RecipeJob, installed: Versions) -> RecipeJob:
    """UsageError for an option that this job does not take, and for two that contradict each other."""
    job = shape.shaped(recipe, job, request.nnodes, request.cards)
    there = {**installed, **parse_versions(request.installed)}
    job, _ = dialects.spoken(recipe, job, there)
    if request.data:
        job = user_options.own_data(job, str(request.data.expanduser().absolute()))
    job = _with_settings(request, recipe, job, there)
    return job if request.steps is None else set_steps(job, request.steps)


def parse_versions(pairs: tuple[str, ...]) -> Versions:
    """NAME=VERSION of --installed."""
    found = {}
    for pair in pairs:
        name, _, version = pair.replace("==", "=").partition("=")
        if not name or not version:
            raise UsageError(
                f"--installed: {pair[:80]!r} is not NAME=VERSION", "for instance --installed ms-swift=3.12.0"
            )
        found[name.strip()] = version.strip()
    return found


def _with_settings(request: JobRequest, recipe: Recipe, job: RecipeJob, there: Versions) -> RecipeJob:
    own = user_options.read(request.settings, request.extra)
    if not own:
        return job
    its = schema.of(job.launcher, recipe, there)
    own = user_options.spelled(own, its)
    for name in STEP_OPTIONS if request.steps is not None else ():
        if name in own:
            raise UsageError(f"{name} is said by --steps as well; only one would count", "say it once")
    doubts = user_options.judge(own, its)
    validate.values(own)
    made = user_options.applied(job, own)
    validate.whole(made)
    return replace(made, caution=(*made.caution, *doubts))


def set_steps(job: RecipeJob, steps: int) -> RecipeJob:
    """The same job for so many steps."""
    for name in STEP_OPTIONS:
        if name in rows(job.arguments):
            return user_options.applied(job, {name: (str(steps),)})
    raise UsageError(f"the job {job.method!r} counts no steps that --steps could change", "leave --steps out")

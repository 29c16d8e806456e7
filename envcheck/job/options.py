"""Apply a request's nodes, cards, data, steps and training options to a recipe's job."""

from __future__ import annotations

from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.job.request import JobRequest
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering import dialects, job_scaling, option_schema, user_options, validate
from launch.rendering.argument_rows import parse_rows
from launch.rendering.option_schema import Versions

STEP_OPTIONS = ("steps", "max_steps")


def apply_options(request: JobRequest, recipe: Recipe, job: RecipeJob, installed: Versions) -> RecipeJob:
    """Return the job with the request's options, translated for the installed upstream.

    Raises UsageError for an option that the job does not accept, and for two that contradict each other.
    """
    job = job_scaling.scale_job(recipe, job, request.nnodes, request.cards)
    there = {**installed, **parse_versions(request.installed)}
    job, _unused = dialects.translate_job(recipe, job, there)
    if request.data:
        job = user_options.set_own_data(job, str(request.data.expanduser().absolute()))
    job = _apply_settings(request, recipe, job, there)
    return job if request.steps is None else set_steps(job, request.steps)


def parse_versions(pairs: tuple[str, ...]) -> Versions:
    """Return package → version from the NAME=VERSION pairs of --installed."""
    found = {}
    for pair in pairs:
        name, _unused, version = pair.replace("==", "=").partition("=")
        if not name or not version:
            raise UsageError(
                _("--installed: {pair!r} is not NAME=VERSION", pair=pair[:80]),
                _("for example --installed ms-swift=3.12.0"),
            )
        found[name.strip()] = version.strip()
    return found


def _apply_settings(request: JobRequest, recipe: Recipe, job: RecipeJob, there: Versions) -> RecipeJob:
    own = user_options.parse_user_options((*request.settings, *request.added_settings), request.extra)
    if not own:
        return job
    its = option_schema.find_schema(job.launcher, recipe, there)
    own = user_options.normalise_names(own, its)
    for name in STEP_OPTIONS if request.steps is not None else ():
        if name in own:
            raise UsageError(_("{name} conflicts with --steps", name=name), _("use only one of them"))
    doubts = user_options.judge_names(own, its)
    validate.check_values(own)
    changed = user_options.apply_options(job, own)
    validate.check_combination(changed)
    return replace(changed, caution=(*changed.caution, *doubts))


def set_steps(job: RecipeJob, steps: int) -> RecipeJob:
    """Return the job limited to `steps` steps; UsageError if its program has no such option."""
    for name in STEP_OPTIONS:
        if name in parse_rows(job.arguments):
            return user_options.apply_options(job, {name: (str(steps),)})
    raise UsageError(_("method {method!r} does not support --steps", method=job.method), _("remove --steps"))

"""The recipe, job and values that a request means; nothing is run here."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from envcheck.core import paths as folders
from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, Shape
from installers.recipes.recipe import Job, Recipe
from launch.job import placeholders
from launch.job.request import Request
from launch.rendering import dialects, schema, shape, user_options, validate
from launch.rendering.rows import rows
from launch.rendering.schema import Versions

STEP_OPTIONS = ("steps", "max_steps")


def choose_job(request: Request, installed: Versions | None = None, recipes: tuple[Recipe, ...] | None = None) -> Offer:
    """The recipe and job that the request means, on its nodes and cards, with its options, in the words of the upstream
    that is installed: `installed` are the packages where the job would run, None is not known yet; `recipes` are those
    that were read already."""
    recipes = catalogue.load_all(request.recipes) if recipes is None else recipes
    if request.recipe:
        recipes = (catalogue.by_name(recipes, request.recipe),)
    recipe, job = _select(recipes, request)
    job = shape.shaped(recipe, job, request.nnodes, request.cards)
    there = {**_found(request, recipe, installed), **_said(request.installed)}
    job, _ = dialects.spoken(recipe, job, there)
    placeholders.check_placeholders(request, recipe, job)
    if request.data:
        job = user_options.own_data(job, str(request.data.expanduser().absolute()))
    job = _with_options(request, recipe, job, there)
    return recipe, job if request.steps is None else set_steps(job, request.steps)


def _found(request: Request, recipe: Recipe, installed: Versions | None) -> Versions:
    """What is installed where the job would run: known to the caller, or read from an environment of this host."""
    if installed is not None or recipe.image:
        return installed or {}
    from installers.state import environment

    return environment.read(interpreter_folder(request, recipe)).packages


def _said(pairs: tuple[str, ...]) -> Versions:
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


def _with_options(request: Request, recipe: Recipe, job: Job, there: Versions) -> Job:
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


def _select(recipes: tuple[Recipe, ...], request: Request) -> Offer:
    """Where several devices fit and none was named, the one in this machine."""
    words = (request.model, request.method, request.device, request.framework)
    size = Shape(request.variant, request.node_role, request.nnodes, request.cards)
    try:
        return catalogue.select(recipes, *words, size)
    except UsageError:
        if request.device != "auto":
            raise
        from installers.plan.accelerator import device_here

        with contextlib.suppress(UsageError):
            return catalogue.select(recipes, request.model, request.method, device_here(), request.framework, size)
        raise


def set_steps(job: Job, steps: int) -> Job:
    """The same job for so many steps."""
    for name in STEP_OPTIONS:
        if name in rows(job.arguments):
            return user_options.applied(job, {name: (str(steps),)})
    raise UsageError(f"the job {job.method!r} counts no steps that --steps could change", "leave --steps out")


def interpreter_folder(request: Request, recipe: Recipe) -> Path:
    return (request.into or folders.environment_folder(recipe.name)).expanduser().absolute()


def fill_values(request: Request, recipe: Recipe, run: Path | None) -> dict[str, str]:
    """What this machine fills into the command; without a run the script's own variables stay."""
    found = {}
    if recipe.image is None:
        found["python"] = str(interpreter_folder(request, recipe) / "bin" / "python")
    if request.data:
        found["data"] = str(request.data.expanduser().absolute())
    found |= placeholders.fill_placeholders(request)
    return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}

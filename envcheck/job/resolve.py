"""Resolve a request, a catalogue of recipes and the facts of a machine to one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _
from envcheck.job import options, placeholders, select
from envcheck.job.container_privileges import derive_container
from envcheck.job.definition import Job
from envcheck.job.judgement import judge_offer
from envcheck.job.own_recipe_builder import build_own_recipe
from envcheck.job.request import JobRequest
from installers.recipes.catalogue import TALKS, Offer, job_device
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering.option_schema import Versions

NOTHING: Versions = MappingProxyType({})


def resolve(
    request: JobRequest, catalogue: Sequence[Recipe], facts: Facts, installed: Versions | None = None, folder: str = ""
) -> Job:
    """Return the job for the machine of these facts.

    `installed` are the packages of the environment in which it runs; None: those of its virtual environment in
    `facts`.  `folder` is the base of a container's relative mounts, "" for the working folder.  Raises UsageError if
    the request matches no job or several, NoFittingRecipeError if this machine can run none of them.
    """
    if request.own_job is not None:
        recipe = build_own_recipe(request.own_job, facts, request.device)
        return resolve_offer(request, (recipe, recipe.jobs[0]), facts, folder or str(Path.cwd()))
    choice = select.select_offer(request, catalogue, facts)
    offer = _adapt_method(request, choice.offer, facts, installed)
    job = resolve_offer(request, offer, facts, folder or str(Path.cwd()))
    return replace(job, reason=choice.reason, equals=choice.equals)


def resolve_method(
    request: JobRequest, catalogue: Sequence[Recipe], facts: Facts, installed: Versions | None = None
) -> Offer:
    """Return recipe and job without evaluating them on this machine, for a job that runs on other machines."""
    return _adapt_method(request, select.select_offer(request, catalogue, facts).offer, facts, installed)


def _adapt_method(request: JobRequest, offer: Offer, facts: Facts, installed: Versions | None) -> Offer:
    """Return the recipe's job with the request's options, translated for the installed packages."""
    recipe, method = offer
    there = _find_installed_packages(request, recipe, facts) if installed is None else installed
    method = options.apply_options(request, recipe, method, there)
    placeholders.check_placeholders(request, recipe, method)
    return recipe, method


def resolve_offer(request: JobRequest, offer: Offer, facts: Facts, folder: str) -> Job:
    """Return the resolved job of a recipe that is already chosen."""
    recipe, method = offer
    found = judge_offer(offer, facts)
    known = facts if found.is_for_this_machine else Facts()
    as_published = request.as_published or recipe.name in facts.published_containers
    device, terms = job_device(offer), (found.architecture, folder, as_published)
    return Job(
        recipe=recipe,
        method=method,
        wanted=found.wanted,
        architecture=found.architecture,
        devices=found.devices,
        image=found.image,
        container=derive_container(recipe, known, device, found.devices, *terms),
        findings=found.findings,
        is_for_this_machine=found.is_for_this_machine,
        plan=found.plan,
    )


def refuse_talk(recipe: Recipe, method: RecipeJob) -> None:
    """Raise UsageError for a chat or inference job."""
    if method.method in TALKS:
        raise UsageError(
            _("{name}, {method}, is not a training job", name=recipe.name, method=method.method),
            _("run `envcheck infer` to chat with a trained model"),
        )


def _find_installed_packages(request: JobRequest, recipe: Recipe, facts: Facts) -> Versions:
    """Return the packages of the job's virtual environment; empty for a container, whose packages are unknown."""
    if request.into is None and recipe.image is not None:
        return NOTHING
    own = str(request.into.expanduser().absolute()) if request.into else recipe.name
    found = facts.environments.get(own)
    return found.packages if found else NOTHING

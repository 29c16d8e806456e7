"""A request, a catalogue of recipes and the facts of a machine → the one job that is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job import options, placeholders, select
from envcheck.job.container import derive_container
from envcheck.job.job import Job
from envcheck.job.judgement import judge_offer
from envcheck.job.request import JobRequest
from installers.recipes.catalogue import TALKS, Offer, device_of
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering.schema import Versions

NOTHING: Versions = MappingProxyType({})


def resolve(
    request: JobRequest, catalogue: Sequence[Recipe], facts: Facts, installed: Versions | None = None, folder: str = ""
) -> Job:
    """The job for the machine of these facts; UsageError where the request means none, or several.

    `installed` are the packages of the place where it would run, where that was looked at; None takes those of its
    virtual environment in `facts`.  `folder` is where relative mounts of a container start, "" for the working folder.
    """
    choice = select.select_offer(request, catalogue, facts)
    offer = _adapt(request, choice.offer, facts, installed)
    job = resolve_offer(request, offer, facts, folder or str(Path.cwd()))
    return replace(job, reason=choice.reason, equals=choice.equals)


def resolve_method(
    request: JobRequest, catalogue: Sequence[Recipe], facts: Facts, installed: Versions | None = None
) -> Offer:
    """The recipe and its job alone, without what a machine makes of them: for a job that runs on others."""
    return _adapt(request, select.select_offer(request, catalogue, facts).offer, facts, installed)


def _adapt(request: JobRequest, offer: Offer, facts: Facts, installed: Versions | None) -> Offer:
    """The recipe's job with the request's nodes, cards and options, in the words of what is installed."""
    recipe, method = offer
    there = _installed(request, recipe, facts) if installed is None else installed
    method = options.apply_options(request, recipe, method, there)
    placeholders.check_placeholders(request, recipe, method)
    return recipe, method


def resolve_offer(request: JobRequest, offer: Offer, facts: Facts, folder: str) -> Job:
    """The job of a recipe that was chosen already."""
    recipe, method = offer
    found = judge_offer(offer, facts)
    known = facts if found.is_for_this_machine else Facts()
    as_published = request.as_published or recipe.name in facts.published_containers
    device, terms = device_of(offer), (found.architecture, folder, as_published)
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
    """UsageError for a job that trains nothing."""
    if method.method in TALKS:
        raise UsageError(
            f"{recipe.name}, {method.method}, trains nothing", "envcheck infer talks with what was trained"
        )


def _installed(request: JobRequest, recipe: Recipe, facts: Facts) -> Versions:
    """Of the virtual environment where it would run; what an image holds is seen only inside."""
    if request.into is None and recipe.image is not None:
        return NOTHING
    own = str(request.into.expanduser().absolute()) if request.into else recipe.name
    found = facts.environments.get(own)
    return found.packages if found else NOTHING

"""Resolve a request, a catalogue of recipes and the facts of a machine to one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _, ngettext
from envcheck.job import options, placeholders, select, visible_cards
from envcheck.job.choose_cards import CardChoice, CardQuery, choose_cards, count_requested
from envcheck.job.container_privileges import derive_container
from envcheck.job.definition import Job
from envcheck.job.judgement import judge_offer
from envcheck.job.own_recipe_builder import add_settings, build_own_recipe, choose_own_cards
from envcheck.job.request import JobRequest
from envcheck.vendors import VENDORS
from installers.recipes.catalogue import TALKS, Offer, job_device
from installers.recipes.recipe import Recipe, RecipeJob, narrow_to_role
from launch.planner.recipe_demand import build_demand
from launch.rendering.option_schema import Versions

NOTHING: Versions = MappingProxyType({})


def resolve(
    request: JobRequest, catalogue: Sequence[Recipe], facts: Facts, installed: Versions | None = None, folder: str = ""
) -> Job:
    """Return the job for the machine of these facts.

    For callers that need what the job is: installation, scripts, schedulers, other hosts.  doctor, plan and a training
    on this machine call launch.own_job_facts.resolve_job, which also judges the files of a job of the user's own.

    `installed` are the packages of the environment in which it runs; None: those of its virtual environment in
    `facts`.  `folder` is the base of a container's relative mounts, "" for the working folder.  Raises UsageError if
    the request matches no job or several, NoFittingRecipeError if this machine can run none of them.
    """
    request = _count_devices(request)
    if request.own_job is not None:
        own = add_settings(request.own_job, request.added_settings)
        recipe = build_own_recipe(own, facts, request.device, request.cards)
        return resolve_offer(request, (recipe, recipe.jobs[0]), facts, folder or str(Path.cwd()))
    choice = select.select_offer(request, catalogue, facts)
    offer = _adapt_method(request, choice.offer, facts, installed)
    job = resolve_offer(request, offer, facts, folder or str(Path.cwd()))
    return replace(job, reason=choice.reason, equals=choice.equals)


def resolve_method(
    request: JobRequest, catalogue: Sequence[Recipe], facts: Facts, installed: Versions | None = None
) -> Offer:
    """Return recipe and job without evaluating them on this machine, for a job that runs on other machines."""
    request = _count_devices(request)
    return _adapt_method(request, select.select_offer(request, catalogue, facts).offer, facts, installed)


def _count_devices(request: JobRequest) -> JobRequest:
    """Return the request with as many cards as --devices names; UsageError if --cards-per-node says otherwise."""
    count = count_requested(request.devices)
    if count is None or request.cards == count:
        return request
    if request.cards is not None:
        raise UsageError(
            ngettext(
                "--devices names {count} device, but --cards-per-node is {cards}",
                "--devices names {count} devices, but --cards-per-node is {cards}",
                count,
                cards=request.cards,
            ),
            _("use only one of them"),
        )
    return replace(request, cards=count)


def _adapt_method(request: JobRequest, offer: Offer, facts: Facts, installed: Versions | None) -> Offer:
    """Return the recipe's job with the request's options, translated for the installed packages."""
    recipe, method = offer
    there = find_installed_packages(request, recipe, facts) if installed is None else installed
    method = options.apply_options(request, recipe, method, there)
    placeholders.check_placeholders(request, recipe, method)
    return recipe, method


def resolve_offer(request: JobRequest, offer: Offer, facts: Facts, folder: str) -> Job:
    """Return the resolved job of a recipe that is already chosen."""
    recipe, method = narrow_to_role(*offer), offer[1]
    device = job_device(offer)
    choice = _choose_cards(request, offer, facts)
    found = judge_offer(offer, facts, choice)
    known = facts if found.is_for_this_machine else Facts()
    as_published = request.as_published or recipe.name in facts.published_containers
    only = bool(choice and choice.is_explicit)
    container = derive_container(
        recipe, known, device, found.nodes, found.architecture, folder, as_published=as_published, only=only
    )
    if choice and (request.own_job is None or choice.is_explicit):
        in_container = container is not None and request.into is None and not (known.host and known.host.in_container)
        numbers = container.number_nodes(choice.nodes) if container and in_container else choice.places
        method = visible_cards.select_numbers(recipe, method, VENDORS[device], numbers)
    return Job(
        recipe=recipe,
        method=method,
        wanted=found.wanted,
        architecture=found.architecture,
        devices=found.devices,
        image=found.image,
        container=container,
        findings=found.findings,
        is_for_this_machine=found.is_for_this_machine,
        plan=found.plan,
        choice=choice,
    )


def _choose_cards(request: JobRequest, offer: Offer, facts: Facts) -> CardChoice | None:
    recipe, method = offer
    device = job_device(offer)
    query = CardQuery(request.devices, method.processes, lambda: build_demand(recipe, method, facts)[0])
    if request.own_job is not None:
        return choose_own_cards(request.own_job, query, facts, device)
    return choose_cards(query, facts, device)


def refuse_talk(recipe: Recipe, method: RecipeJob) -> None:
    """Raise UsageError for a chat or inference job."""
    if method.method in TALKS:
        raise UsageError(
            _("{name}, {method}, is not a training job", name=recipe.name, method=method.method),
            _("run `envcheck infer` to chat with a trained model"),
        )


def find_installed_packages(request: JobRequest, recipe: Recipe, facts: Facts) -> Versions:
    """Return the packages of the job's virtual environment; empty for a container, whose packages are unknown."""
    if request.into is None and recipe.image is not None:
        return NOTHING
    own = str(request.into.expanduser().absolute()) if request.into else recipe.name
    found = facts.environments.get(own)
    return found.packages if found else NOTHING

"""The recipe's job that `plan` evaluates: the same job that other commands select with the same options."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.language import translate
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Status
from envcheck.job.definition import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_method
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer
from installers.recipes.recipe import Recipe, derive_requirements
from launch.catalogue import devices
from launch.memory.planned_job import PlannedJob
from launch.own_job_facts import resolve_job
from launch.planner import recipe_fit, recipe_layout
from launch.planner.resolve import PlannedMachine

# Options that select another layout than the recipe's.
OTHER_LAYOUT = ("tp", "pp", "vpp", "ep", "etp", "cp", "sharding")
MOST_PUBLISHED = 4  # recipes named under a plan
OF_RECIPE = ("recipe", "variant", "node_role")  # options that are defined by a recipe only


def resolve_here(asked: Mapping[str, Any], facts: Facts) -> Job | None:
    """Return the job for this machine; None if no recipe has it, several have, or another layout is requested."""
    if any(asked[name] for name in OTHER_LAYOUT) and not asked["own_job"]:
        return None
    request = _build_request(asked, asked["device"])
    recipes = catalogue.load_all(request.recipes)
    with _allow_no_recipe(asked):
        return resolve_job(request, recipes, facts)
    return None


def find_offer(asked: Mapping[str, Any], device: str) -> Offer | None:
    """Return the recipe and its job for devices of that vendor; None if there is none, or several."""
    if asked["own_job"]:
        return None
    request = _build_request(asked, asked["device"] if asked["recipe"] else device)
    recipes = catalogue.load_all(request.recipes)
    with _allow_no_recipe(asked):
        return resolve_method(request, recipes, Facts())
    return None


def name_planned_model(asked: Mapping[str, Any], job: Job | None, offer: Offer | None) -> str:
    """Return the planner's name of the model; a recipe's name selects its model.

    UndeterminedError for a recipe whose model the planner lacks.
    """
    if offer and asked["model"] == offer[0].name:
        found = recipe_fit.find_catalogue_model(offer[0])
        if found is None:
            raise _explain_unsupported(offer[0])
        return found
    return (recipe_fit.find_catalogue_model(job.recipe) if job else None) or asked["model"] or ""


def name_recipe_job(asked: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return model, method and device type of the recipe in `asked`.

    UsageError if it has several jobs, or none with these options.  The model is the recipe's name, which selects it.
    """
    recipe, job = resolve_method(_build_request(asked, asked["device"]), catalogue.load_all(asked["recipes"]), Facts())
    return asked["model"] or recipe.name, asked["method"] or job.method, job.device or recipe.device


def lay_out(job: Job, facts: Facts, asked: Mapping[str, Any]) -> tuple[PlannedMachine, PlannedJob] | None:
    """Return this machine's devices and the job's layout on them, as in doctor's job.memory, with the options in
    `asked`.  The devices are the recipe's own nodes and cards if the requested ones are absent here.

    None if there are too few devices, or a framework would reject it.  UndeterminedError for a model that the planner
    lacks.
    """
    is_absent = needs_absent_devices(job, asked["device"])
    vendor = next((v for v in facts.vendors if v.name == job.device), None)
    if not is_absent and (vendor is None or len(vendor.devices) < job.method.processes):
        return None
    if not (recipe_fit.find_catalogue_model(job.recipe) and recipe_fit.find_training_method(job.method)):
        raise _explain_unsupported(job.recipe)
    given = {name: value for name, value in asked.items() if value is not None}
    with contextlib.suppress(UsageError):
        made = (
            recipe_fit.lay_out_on(
                recipe_fit.build_published_machine(job.recipe, job.method), job.recipe, job.method, given
            )
            if is_absent
            else recipe_fit.lay_out(job.recipe, job.method, facts, job.devices or None, given)
        )
        if made:
            machine, planned = made
            return machine, replace(planned, assumed=(*planned.assumed, _describe_layout(job)))
    return None


def _explain_unsupported(recipe: Recipe) -> UndeterminedError:
    return UndeterminedError(
        _(
            "the planner does not support {models}, the model of recipe {name}",
            models=recipe.models[0],
            name=recipe.name,
        ),
        _("list the supported models with envcheck plan --list-models"),
    )


def _describe_layout(job: Job) -> Message:
    if job.own is not None:
        return _("layout: as read from the job")
    return _("layout: from recipe {recipe}", recipe=recipe_layout.describe_recipe_job(job.recipe, job.method))


def needs_absent_devices(job: Job, device: str) -> bool:
    """Whether --device names devices that this machine does not have: the plan is then about the recipe's host."""
    return device != "auto" and not job.is_for_this_machine


def list_machine_options(planned: PlannedJob) -> dict[str, str]:
    """Return the options that describe the cards of a plan for the recipe's nodes."""
    words = {"--cards": f"{planned.layout.cards}"}
    usual = devices.find_default_device(planned.device.vendor).cards_per_node
    each = planned.device.cards_per_node
    return words if each == usual else words | {"--cards-per-node": f"{each}"}


def describe_unmet(job: Job) -> str:
    """Return the requirements that this machine does not meet, on one line; "" if there are none.

    They block the job if only another machine meets one of them; otherwise they can be met here before training.
    """
    unmet = [f for f in job.findings if f.status is Status.FAIL]
    said = join(", ", [_("{name} ({seen})", name=f.name.partition(".")[2], seen=f.seen) for f in unmet])
    if not unmet:
        return ""
    if job.needs_another_machine:
        return translate(_("blocked by: {requirements}", requirements=said))
    return translate(_("to fix before training: {requirements}", requirements=said))


def describe_recipe_minimum(job: Job) -> str:
    """Return host memory and disk space that the recipe sets for a node, on one line; "" if it sets none."""
    asked = derive_requirements(job.recipe, job.method)
    sizes = [_("{host_gib:g} GiB of host memory", host_gib=asked.host_memory_gib)] if asked.host_memory_gib else []
    sizes += [_("{disk_gib:g} GiB of disk", disk_gib=asked.disk_gib)] if asked.disk_gib else []
    if not sizes:
        return ""
    return translate(_("minimum of recipe {recipe} per node: {sizes}", recipe=job.recipe.name, sizes=join(", ", sizes)))


def list_published_jobs(planned: PlannedJob, recipes: Path | None) -> list[Offer]:
    """Return the recipes' training jobs of the same model on the same vendor's cards, those on as many cards first.

    Of several with the same method only the first.
    """
    cards = planned.layout.cards
    found = [
        (recipe, job)
        for recipe in catalogue.load_all(recipes)
        for job in recipe.jobs
        if catalogue.job_device((recipe, job)) == planned.device.vendor
        and recipe_fit.find_training_method(job)
        and recipe_fit.find_catalogue_model(recipe) == planned.model.name
    ]
    ordered = sorted(found, key=lambda offer: (offer[1].nodes * offer[1].processes != cards, offer[0].name))
    first: dict[str | None, Offer] = {}
    for offer in ordered:
        first.setdefault(recipe_fit.find_training_method(offer[1]), offer)
    return list(first.values())


def describe_published_jobs(planned: PlannedJob, recipes: Path | None) -> str:
    """Return the published recipes of this model for such cards, on one line; "" if there are none."""
    offers = list_published_jobs(planned, recipes)
    cards = planned.layout.cards
    here = [offer for offer in offers if offer[1].nodes * offer[1].processes == cards]
    if not offers:
        return ""
    named = join(", ", (recipe_layout.describe_recipe_job(*offer) for offer in (here or offers)[:MOST_PUBLISHED]))
    words = (
        _("published for this model and {cards} such cards: {recipes}", cards=cards, recipes=named)
        if here
        else _("published for this model and other numbers of such cards: {recipes}", recipes=named)
    )
    return translate(words)


def _build_request(asked: Mapping[str, Any], device: str) -> JobRequest:
    words = {name: asked[name] for name in ("model", "method", "framework", *OF_RECIPE)}
    return JobRequest(device=device, recipes=asked["recipes"], own_job=asked["own_job"], **words)


def _allow_no_recipe(asked: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Whether a job of no recipe, or of several, is planned anyway: variants and roles belong to recipes."""
    return contextlib.nullcontext() if any(asked[name] for name in OF_RECIPE) else contextlib.suppress(UsageError)

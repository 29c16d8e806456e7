"""Which job a machine is provisioned for, and what it is supplied from: the network, a lock or a bundle."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.here import collect_facts_here, read_architecture
from envcheck.job.job import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.select import device_here
from envcheck.vendors.names import accelerator_choice
from installers.bundle import read_bundle, sources
from installers.bundle.sources import Supply
from installers.drivers import choice
from installers.locks.lockfile import Lock
from installers.output import plan_text
from installers.recipes import catalogue
from installers.recipes.catalogue import Shape
from installers.recipes.recipe import Recipe

Ask = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class SupplyRequest:
    """`bundle` and `locked` are files; `boxed`: into the recipe's container, where it has one."""

    bundle: Path | None = None
    locked: Path | None = None
    boxed: bool = True


def choose_job(request: JobRequest, facts: Facts, source: SupplyRequest, ask: Ask | None) -> tuple[Job, Supply]:
    """The job and what it takes; `ask` is called with the names of recipes that would do equally well, where there is
    somebody to answer."""
    architecture = read_architecture(facts)
    if source.bundle:
        with plan_text.Screen() as screen:
            found = read_bundle.verify(source.bundle, architecture, screen.show)
        supply = sources.bundled(found, request.recipe, request.device, request.model, source.boxed, architecture)
        own = replace(request, model=None, method=None, framework=None, recipe=supply.recipe.name)
        return resolve(own, [supply.recipe], facts), supply
    job = _resolve_asking(request, catalogue.load_all(request.recipes), facts, ask)
    if source.locked:
        return job, sources.locked(job.recipe, str(source.locked), source.boxed, architecture)
    return job, Supply(job.recipe, boxed=source.boxed)


def _resolve_asking(request: JobRequest, recipes: Sequence[Recipe], facts: Facts, ask: Ask | None) -> Job:
    job = resolve(request, recipes, facts)
    if not job.equals or ask is None:
        return job
    picked = ask((job.recipe.name, *job.equals))
    return resolve(replace(request, recipe=picked), recipes, facts)


def find_job_to_undo(request: JobRequest, facts: Facts) -> Job:
    """Of the recipes that were provisioned here the one that is meant; where there is none such, of all."""
    recipes = catalogue.load_all(request.recipes)
    made = [recipe for recipe in recipes if paths.environment_folder(recipe.name).exists()]
    if made and request.into is None:
        with contextlib.suppress(UsageError):
            return resolve(request, made, facts)
    return resolve(request, recipes, facts)


def choose_driver_recipe(request: JobRequest, lock: Lock | None) -> tuple[Recipe, str]:
    """The recipe as far as the driver goes, and a sentence where others of the device want less of it.

    Whether the machine is fit for the recipe's jobs is not asked: without the driver nobody can tell.
    """
    if lock and not (request.recipe or request.model or request.method or request.framework):
        request = replace(request, recipe=lock.recipe)
    recipes = catalogue.load_all(request.recipes)
    words = (request.model, request.method, request.device, request.framework)
    if request.recipe:
        recipes = (catalogue.agreeing(catalogue.by_name(recipes, request.recipe), *words),)
    shape = Shape(request.variant) if request.variant else None
    offers = catalogue.possible(recipes, *words, shape)
    devices = {catalogue.device_of(offer) for offer in offers}
    device = next(iter(devices)) if len(devices) == 1 else device_here(collect_facts_here(request))
    if device == "cpu":
        raise UsageError("no card is seen here, and processors need no driver", f"say --device {accelerator_choice()}")
    return choice.choose(list({recipe.name: recipe for recipe, _ in offers}.values()), device)

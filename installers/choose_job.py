"""Select the job that a machine is provisioned for, and its supply: the network, a lock file or a bundle."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _
from envcheck.job.definition import Job
from envcheck.job.local_facts import collect_facts_here, read_architecture
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.select import find_local_device
from envcheck.vendors.names import accelerator_choice
from installers.bundle import archive_reader, signature, sources
from installers.bundle.sources import Supply
from installers.drivers import choice
from installers.locks.lockfile import Lock
from installers.output import plan_text
from installers.recipes import catalogue
from installers.recipes.catalogue import JobShape
from installers.recipes.recipe import Recipe

Ask = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class SupplyRequest:
    """`bundle` and `locked` are files; `boxed`: provision the recipe's container, if it has one.  `signers`: read
    only a bundle that one of them signed."""

    bundle: Path | None = None
    locked: Path | None = None
    boxed: bool = True
    signers: Path | None = None


def choose_job(request: JobRequest, facts: Facts, source: SupplyRequest, ask: Ask | None) -> tuple[Job, Supply]:
    """Return the job and its supply.

    `ask` is called with the names of recipes that are equally suitable and returns one; None if nobody can answer.
    """
    architecture = read_architecture(facts)
    if source.bundle:
        if source.signers:
            signature.verify_signature(source.bundle, source.signers)
        with plan_text.ProgressScreen() as screen:
            found = archive_reader.verify_bundle(source.bundle, architecture, screen.show_event)
        supply = sources.supply_from_bundle(
            found, request.recipe, request.device, request.model, source.boxed, architecture
        )
        own = replace(request, model=None, method=None, framework=None, recipe=supply.recipe.name)
        return resolve(own, [supply.recipe], facts), supply
    job = _resolve_asking(request, catalogue.load_all(request.recipes), facts, ask)
    if job.recipe.own_environment and request.into is None:
        raise UsageError(
            _("recipe {name} runs in your own environment: envcheck installs nothing for it", name=job.recipe.name),
            _("install its programs yourself, and check them with `envcheck train --gates`"),
        )
    if source.locked:
        return job, sources.supply_from_lock(job.recipe, str(source.locked), source.boxed, architecture)
    return job, Supply(job.recipe, boxed=source.boxed)


def _resolve_asking(request: JobRequest, recipes: Sequence[Recipe], facts: Facts, ask: Ask | None) -> Job:
    job = resolve(request, recipes, facts)
    if not job.equals or ask is None:
        return job
    picked = ask((job.recipe.name, *job.equals))
    return resolve(replace(request, recipe=picked), recipes, facts)


def find_job_to_undo(request: JobRequest, facts: Facts) -> Job:
    """Return the matching job among the recipes provisioned here; if there is none, among all recipes."""
    recipes = catalogue.load_all(request.recipes)
    provisioned = [recipe for recipe in recipes if paths.environment_folder(recipe.name).exists()]
    if provisioned and request.into is None:
        with contextlib.suppress(UsageError):
            return resolve(request, provisioned, facts)
    return resolve(request, recipes, facts)


def choose_driver_recipe(request: JobRequest, lock: Lock | None) -> tuple[Recipe, str]:
    """Return the recipe that decides about the driver, and a message if other recipes for the device need less.

    Whether the machine is suitable for the recipe's jobs is not checked: without the driver that is unknown.
    """
    if lock and not (request.recipe or request.model or request.method or request.framework):
        request = replace(request, recipe=lock.recipe)
    recipes = catalogue.load_all(request.recipes)
    words = (request.model, request.method, request.device, request.framework)
    if request.recipe:
        recipes = (catalogue.check_agreement(catalogue.find_recipe(recipes, request.recipe), *words),)
    shape = JobShape(request.variant) if request.variant else None
    offers = catalogue.list_possible(recipes, *words, shape)
    devices = {catalogue.job_device(offer) for offer in offers}
    device = next(iter(devices)) if len(devices) == 1 else find_local_device(collect_facts_here(request))
    if device == "cpu":
        raise UsageError(
            _("no accelerator found on this machine, and CPU recipes need no driver"),
            _("specify --device {choices}", choices=accelerator_choice()),
        )
    return choice.choose_recipe(list({recipe.name: recipe for recipe, _unused in offers}.values()), device)

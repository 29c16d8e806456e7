"""The jobs of a request for nodes that are not this machine: one, or one for each role of a job over mixed cards."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.job import Job
from envcheck.job.resolve import resolve
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer
from installers.recipes.docker_cli import HERE
from installers.recipes.recipe import Recipe, RecipeJob
from launch.targets.request import TrainRequest


def resolve_roles(request: TrainRequest, facts: Facts) -> tuple[Job, ...]:
    """By rank, for the recipe's default hosts; UsageError where the request means no job or several."""
    recipes = catalogue.load_all(request.recipes)
    roles = _list_roles(recipes, request)
    asked = [replace(request, node_role=job.role, device=job.device or "auto") for job in roles] or [request]
    return tuple(resolve(each, recipes, facts, folder=HERE) for each in asked)


def _list_roles(recipes: Sequence[Recipe], request: TrainRequest) -> list[RecipeJob]:
    """Those of the one recipe that is meant, where each of its nodes has its own; [] for every other request, which
    `resolve` takes or refuses."""
    offers: list[Offer] = []
    with contextlib.suppress(UsageError):
        named = [catalogue.by_name(recipes, request.recipe)] if request.recipe else recipes
        words, shape = (request.model, request.method, "auto", request.framework), catalogue.Shape(request.variant)
        offers = catalogue.possible(named, *words, shape)
    if len({(recipe.name, job.method) for recipe, job in offers}) != 1 or not all(job.role for _, job in offers):
        return []
    return _in_order(offers[0][0], [job for _, job in offers])


def _in_order(recipe: Recipe, jobs: list[RecipeJob]) -> list[RecipeJob]:
    """By rank."""
    jobs.sort(key=lambda job: job.rank or 0)
    if [job.rank for job in jobs] != list(range(jobs[0].nodes)):
        why = f"{recipe.name} has not one role for each of its {jobs[0].nodes} nodes"
        raise UsageError(why, "start them by --rank")
    return jobs

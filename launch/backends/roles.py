"""The jobs of a request for other machines: one, or one per role of a job over mixed devices."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _
from envcheck.job.definition import Job
from envcheck.job.resolve import resolve
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer
from installers.recipes.docker_cli import HERE
from installers.recipes.recipe import Recipe, RecipeJob
from launch.targets.train_request import TrainRequest


def resolve_roles(request: TrainRequest, facts: Facts) -> tuple[Job, ...]:
    """Return the jobs by rank, resolved for other hosts; UsageError if the request matches no job or several."""
    recipes = catalogue.load_all(request.recipes)
    roles = _list_roles(recipes, request)
    requests = [replace(request, node_role=job.role, device=job.device or "auto") for job in roles] or [request]
    return tuple(resolve(each, recipes, facts, folder=HERE) for each in requests)


def _list_roles(recipes: Sequence[Recipe], request: TrainRequest) -> list[RecipeJob]:
    """Return the jobs by rank if the request matches one recipe whose nodes have roles; [] for other requests, which
    `resolve` accepts or rejects."""
    offers: list[Offer] = []
    with contextlib.suppress(UsageError):
        named = [catalogue.find_recipe(recipes, request.recipe)] if request.recipe else recipes
        words, shape = (request.model, request.method, "auto", request.framework), catalogue.JobShape(request.variant)
        offers = catalogue.list_possible(named, *words, shape)
    if len({(recipe.name, job.method) for recipe, job in offers}) != 1 or not all(job.role for _unused, job in offers):
        return []
    return _sort_by_rank(offers[0][0], [job for _unused, job in offers])


def _sort_by_rank(recipe: Recipe, jobs: list[RecipeJob]) -> list[RecipeJob]:
    """Return the jobs by rank; UsageError unless there is one role for each node."""
    jobs.sort(key=lambda job: job.rank or 0)
    if [job.rank for job in jobs] != list(range(jobs[0].nodes)):
        why = _(
            "recipe {name} does not define a role for each of its {nodes} nodes", name=recipe.name, nodes=jobs[0].nodes
        )
        raise UsageError(why, _("start each node with --rank"))
    return jobs

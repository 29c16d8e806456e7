"""A job on another number of nodes and cards: the degrees that its recipe chose stay, data parallel takes the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UsageError
from installers.recipes.recipe import Recipe, RecipeJob
from launch.catalogue.tables import beside
from launch.rendering.rows import arguments, merged, rows


def shaped(recipe: Recipe, job: RecipeJob, nodes: int | None, cards: int | None) -> RecipeJob:
    """The job on so many nodes of so many cards; UsageError with the counts that would do."""
    wanted = (job.nodes if nodes is None else nodes, job.processes if cards is None else cards)
    if wanted == (job.nodes, job.processes):
        return job
    if job.role:
        raise UsageError(
            f"{job.method} ({job.role}) is a part of {job.nodes} nodes of {job.processes} cards and no other number",
            "leave --nnodes and --cards out",
        )
    texts = " ".join((*job.launcher, *job.arguments, *job.environment.values(), *recipe.environment.values()))
    if not job.parallel or not ("{devices}" in texts or "{processes}" in texts):
        raise UsageError(f"{job.method} names no cards that --cards or --nnodes could change", "leave them out")
    world = math.prod(wanted)
    fixed = math.prod(degree for name, degree in job.parallel.items() if name != "data")
    if world % fixed:
        raise UsageError(
            f"{wanted[0]} x {wanted[1]} cards are {world}, and {_degrees(job)} want a multiple of {fixed}",
            f"take a multiple, or other degrees by --set: `envcheck plan --cards {world} --search` ranks them",
        )
    grown = replace(
        job, nodes=wanted[0], cards=wanted[1], processes=wanted[1], parallel={**job.parallel, "data": world // fixed}
    )
    return several(ranked(grown)) if wanted[0] > 1 else ranked(grown)


def ranked(job: RecipeJob) -> RecipeJob:
    """The job with what makes its launcher start a process for each card, where that is a variable."""
    found = next((table for word, table in _tables("ranks").items() if word in job.launcher), None)
    if found is None or job.processes == 1:
        return job
    return replace(job, environment={**job.environment, **found["environment"]})


def _degrees(job: RecipeJob) -> str:
    return " x ".join(f"{name} {degree}" for name, degree in job.parallel.items() if name != "data")


def several(job: RecipeJob) -> RecipeJob:
    """The job with what its launcher wants to know where there are other nodes; it may know already."""
    for word, table in _tables("several").items():
        if word in job.launcher:
            *ahead, program = job.launcher
            options = rows(ahead[ahead.index(word) + 1 :]) if table.get("options") else {}
            head = ahead[: ahead.index(word) + 1] if table.get("options") else ahead
            told = merged(arguments(options), rows(table.get("options", ())))
            return replace(
                job,
                launcher=(*head, *told, program),
                environment={**job.environment, **table.get("environment", {})},
            )
    raise UsageError(f"the launcher of {job.method} is started on one node alone", "leave --nnodes out")


def _tables(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = beside(__file__, "launchers")[name]
    return found

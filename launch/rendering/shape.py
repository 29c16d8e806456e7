"""A job on another number of nodes and cards: the degrees that its recipe chose stay, data parallel takes the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import own_record
from installers.recipes.recipe import Recipe, RecipeJob
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
    found = next((added for word, added in _launchers().ranks.items() if word in job.launcher), None)
    if found is None or job.processes == 1:
        return job
    return replace(job, environment={**job.environment, **found.environment})


def _degrees(job: RecipeJob) -> str:
    return " x ".join(f"{name} {degree}" for name, degree in job.parallel.items() if name != "data")


def several(job: RecipeJob) -> RecipeJob:
    """The job with what its launcher wants to know where there are other nodes; it may know already."""
    for word, added in _launchers().several.items():
        if word in job.launcher:
            *ahead, program = job.launcher
            options = rows(ahead[ahead.index(word) + 1 :]) if added.options else {}
            head = ahead[: ahead.index(word) + 1] if added.options else ahead
            told = merged(arguments(options), rows(added.options))
            return replace(
                job,
                launcher=(*head, *told, program),
                environment={**job.environment, **added.environment},
            )
    raise UsageError(f"the launcher of {job.method} is started on one node alone", "leave --nnodes out")


@dataclass(frozen=True)
class _Added:
    """What a launcher is given."""

    source: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Launchers:
    """launchers.toml, by a word of the launcher: for a process for each card, and for several nodes."""

    ranks: Mapping[str, _Added]
    several: Mapping[str, _Added]


@cache
def _launchers() -> _Launchers:
    return own_record(_Launchers, Path(__file__).with_name("launchers.toml"))

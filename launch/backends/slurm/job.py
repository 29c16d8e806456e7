"""A training as a job of Slurm: its components, each with its own nodes, cards and words, as frozen data."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, device_of
from installers.recipes.recipe import Recipe
from launch.backends.slurm.place import ComponentPlacement, place
from launch.backends.slurm.site import PartitionRow
from launch.backends.slurm.slurm_options import SlurmOptions
from launch.job.choose_job import choose_job, fill_values
from launch.job.command import TrainingCommand, render
from launch.job.repeat_options import format_job_options
from launch.job.request import Request

KEPT = ("nnodes", "cards", "steps", "port", "data")  # those of the request that the nodes are told in the same words


@dataclass(frozen=True)
class JobComponent:
    """`words` are the options of train for each of its nodes, `command` what its launcher starts in the end."""

    device: str
    role: str
    nodes: int
    place: ComponentPlacement
    words: tuple[str, ...]
    command: TrainingCommand


@dataclass(frozen=True)
class SlurmPlan:
    """`nodes` are those of the whole job; `run` its folder, which all nodes see; `envcheck` the program there."""

    name: str
    title: str
    run: Path
    envcheck: str
    nodes: int
    components: tuple[JobComponent, ...]
    wish: SlurmOptions


def plan(
    request: Request, wish: SlurmOptions, rows: Sequence[PartitionRow] | None, run: Path, envcheck: str
) -> SlurmPlan:
    """The job as the site can take it; UsageError where it cannot."""
    offers = parts(request)
    for word, said in (("--partition", wish.partition), ("--gres", wish.gres)):
        if len(said) not in (0, 1, len(offers)):
            raise UsageError(f"{word} was said {len(said)} times", f"once, or for each of {len(offers)} components")
    made = tuple(_component(request, wish, rows, offer, n) for n, offer in enumerate(offers))
    recipe, job = offers[0]
    name = "-".join(filter(None, (recipe.name, job.method, job.variant)))
    return SlurmPlan(name, made[0].command.title, run, envcheck, job.nodes, made, wish)


def parts(request: Request) -> tuple[Offer, ...]:
    """The job alone, or each role of a job over mixed cards, by rank."""
    recipes = catalogue.load_all(request.recipes)
    recipe, job = _chosen(request, recipes)
    if not job.role:
        return ((recipe, job),)
    same = [j for j in recipe.jobs if j.role and (j.method, j.variant) == (job.method, job.variant)]
    roles = sorted(same, key=lambda j: j.rank or 0)
    if [j.rank for j in roles] != list(range(job.nodes)):
        raise UsageError(f"{recipe.name} has not one role for each of its {job.nodes} nodes", "start them by --rank")
    return tuple(
        choose_job(replace(request, node_role=j.role, device=j.device or "auto"), None, recipes) for j in roles
    )


def _chosen(request: Request, recipes: tuple[Recipe, ...]) -> Offer:
    try:
        return choose_job(request, None, recipes)
    except UsageError:
        for role in {job.role for recipe in recipes for job in recipe.jobs if job.role}:
            with contextlib.suppress(UsageError):
                return choose_job(replace(request, node_role=role), None, recipes)
        raise


def _component(
    request: Request, wish: SlurmOptions, rows: Sequence[PartitionRow] | None, offer: Offer, number: int
) -> JobComponent:
    recipe, job = offer
    device = device_of(offer)
    nodes = 1 if job.role else job.nodes
    said = [texts[min(number, len(texts) - 1)] if texts else "" for texts in (wish.partition, wish.gres)]
    there = place(rows, device, nodes, job.processes, *said)
    made = render(recipe, job, fill_values(request, recipe, None))
    return JobComponent(device, job.role, nodes, there, node_words(request, offer), made)


def node_words(request: Request, offer: Offer) -> tuple[str, ...]:
    """The options with which each node starts its own part; its rank and the master stand in the script."""
    import shlex

    recipe, job = offer
    found = shlex.split(format_job_options(_absolute(request), recipe, job))
    pairs = [(f"--{name}", getattr(request, name)) for name in KEPT]
    pairs += [("--deadline", request.deadline_s), ("--gather", request.gather_s if job.nodes > 1 else None)]
    several = {"--set": request.settings, "--installed": request.installed, "--no-stop": request.no_stop}
    several |= {"--limit": request.limits, "--waive": request.waive, "--because": request.because}
    found += [word for option, value in pairs if value is not None for word in (option, _word(value))]
    found += [word for option, values in several.items() for value in values for word in (option, value)]
    return (*found, *(("--", *request.extra) if request.extra else ()))


def _word(value: object) -> str:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _absolute(request: Request) -> Request:
    """Each node starts in a folder of its own choice."""
    named = {name: path.expanduser().absolute() for name in ("into", "recipes") if (path := getattr(request, name))}
    return replace(request, **named)

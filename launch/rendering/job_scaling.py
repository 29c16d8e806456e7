"""Scale a job to another number of nodes and cards: the recipe's degrees stay, data parallelism takes the rest."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.toml_file import load_own_record
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering.argument_rows import format_arguments, merge_rows, parse_rows


def scale_job(recipe: Recipe, job: RecipeJob, nodes: int | None, cards: int | None) -> RecipeJob:
    """Return the job for `nodes` nodes of `cards` cards, None: as the recipe has it.

    Raises UsageError, naming valid counts, if the job cannot run on that many.
    """
    wanted = (job.nodes if nodes is None else nodes, job.processes if cards is None else cards)
    if wanted == (job.nodes, job.processes):
        return job
    if job.role:
        raise UsageError(
            _(
                "{method} ({role}) requires exactly {nodes} nodes with {processes} cards each",
                method=job.method,
                role=job.role,
                nodes=job.nodes,
                processes=job.processes,
            ),
            _("remove --nnodes and --cards-per-node"),
        )
    texts = " ".join((*job.launcher, *job.arguments, *job.environment.values(), *recipe.environment.values()))
    if not job.parallel or not ("{devices}" in texts or "{processes}" in texts):
        raise UsageError(
            _(
                "{method} runs on {nodes} x {processes} cards only (nodes x cards per node)",
                method=job.method,
                nodes=job.nodes,
                processes=job.processes,
            ),
            _("use this number of hosts (--hosts, --nnodes), and remove --cards-per-node"),
        )
    world = math.prod(wanted)
    fixed = math.prod(degree for name, degree in job.parallel.items() if name != "data")
    if world % fixed:
        raise UsageError(
            _(
                "{nodes} x {cards} = {world} cards; {job} needs a multiple of {fixed}",
                nodes=wanted[0],
                cards=wanted[1],
                world=world,
                job=_format_degrees(job),
                fixed=fixed,
            ),
            _(
                "use a multiple of {fixed}, or set other degrees with --set; list them with `{command}`",
                fixed=fixed,
                command=format_search_command(recipe, job, world),
            ),
        )
    grown = replace(
        job, nodes=wanted[0], cards=wanted[1], processes=wanted[1], parallel={**job.parallel, "data": world // fixed}
    )
    return add_node_options(add_rank_environment(grown)) if wanted[0] > 1 else add_rank_environment(grown)


def format_search_command(recipe: Recipe, job: RecipeJob, cards: int) -> str:
    """Return the command that ranks the layouts of this job on `cards` cards."""
    model, device = recipe.dimensions or next(iter(recipe.models), ""), job.device or recipe.device
    named = {"--model": model, "--method": job.method, "--device": device, "--cards": f"{cards}"}
    words = [word for option, value in named.items() if value for word in (option, value)]
    return shlex.join(["envcheck", "plan", *words, "--search"])


def add_rank_environment(job: RecipeJob) -> RecipeJob:
    """Return the job with the variable that makes its launcher start one process per card, if the launcher has one."""
    found = next((added for word, added in _load_launcher_tables().ranks.items() if word in job.launcher), None)
    if found is None or job.processes == 1:
        return job
    return replace(job, environment={**job.environment, **found.environment})


def _format_degrees(job: RecipeJob) -> str:
    return " x ".join(f"{name} {degree}" for name, degree in job.parallel.items() if name != "data")


def add_node_options(job: RecipeJob) -> RecipeJob:
    """Return the job with the multi-node options of its launcher, unless it has them already.

    Raises UsageError for a launcher that runs on one node only.
    """
    for word, added in _load_launcher_tables().several.items():
        if word in job.launcher:
            *ahead, program = job.launcher
            options = parse_rows(ahead[ahead.index(word) + 1 :]) if added.options else {}
            head = ahead[: ahead.index(word) + 1] if added.options else ahead
            merged = merge_rows(format_arguments(options), parse_rows(added.options))
            return replace(
                job,
                launcher=(*head, *merged, program),
                environment={**job.environment, **added.environment},
            )
    raise UsageError(_("the launcher of {method} supports one node only", method=job.method), _("remove --nnodes"))


@dataclass(frozen=True)
class _LauncherAddition:
    """Options and environment to add to a launcher."""

    source: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _LauncherTables:
    """launchers.toml by launcher word: `ranks` for one process per card, `several` for several nodes."""

    ranks: Mapping[str, _LauncherAddition]
    several: Mapping[str, _LauncherAddition]


@cache
def _load_launcher_tables() -> _LauncherTables:
    return load_own_record(_LauncherTables, Path(__file__).with_name("launchers.toml"))

"""Combine the requirements of a recipe's job from the recipe and the memory planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts, MachineRequirements
from envcheck.core.messages import NOTHING, Message, ngettext
from envcheck.core.units import GIB, MIB, format_gib
from installers.recipes.own_recipe import find_own_job
from installers.recipes.recipe import Recipe, RecipeJob, derive_requirements
from launch.planner import LaunchPlan, recipe_fit, recipe_job
from launch.planner.own_fit import judge_own_degrees, judge_own_fit
from launch.rendering.argument_rows import parse_rows

OUTPUT_BYTES = 200 * MIB  # logs, run record and checkpoints of the smallest model, with a margin
MOST_SAVES = 1000
NO_MODELS: Mapping[str, Mapping[str, Any]] = {}


def build_demand(
    recipe: Recipe,
    job: RecipeJob,
    facts: Facts,
    selected: tuple[int, ...] | None = None,
    models: Mapping[str, Mapping[str, Any]] = NO_MODELS,
) -> tuple[MachineRequirements, LaunchPlan | None]:
    """Return the requirements of a job on this machine's cards, and the plan (None if there is nothing to plan).

    `selected`: use only these positions in the tool's list.  `models` are the model folders found, whose config.json
    is used.  The disk space includes weights and packages, which `count_output` leaves out.
    """
    try:
        plan = recipe_fit.plan_recipe(recipe, job, facts, selected)
        fits = recipe_fit.describe_fit(recipe, job, plan)
    except EnvcheckError as err:
        plan, fits = None, recipe_fit.build_unplannable_fit(err)
    degrees = recipe_job.judge_degrees(recipe, job, facts, models)
    if (own := find_own_job(recipe)) is not None:
        fits = judge_own_fit(own, (recipe, job), facts, selected, fits)
        degrees = judge_own_degrees(own, (recipe, job), facts, degrees)
    asked = derive_requirements(recipe, job)
    is_known = plan is not None and not (own is not None and fits is not None and fits.fits is None)
    host_gib = max(asked.host_memory_gib or 0.0, plan.host / GIB if plan and is_known else 0.0)
    output_gib, reason = count_output(job, plan)
    demand = replace(
        asked,
        devices=selected,
        fit=fits,
        degrees=degrees,
        host_memory_gib=host_gib or None,
        disk_gib=max(asked.disk_gib or 0.0, output_gib),
        disk_reason=reason,
    )
    return demand, plan


def count_output(job: RecipeJob, plan: LaunchPlan | None) -> tuple[float, Message]:
    """Return the GiB for logs and kept checkpoints, from the plan or else the recipe, and how they were estimated."""
    if plan is None:
        return max(OUTPUT_BYTES / GIB, job.disk_gib or 0.0), NOTHING
    # This node's share of one checkpoint, without the weights, which the plan includes.
    each, kept = int(plan.disk - 2.0 * plan.job.model.params), count_saves(job)
    return (OUTPUT_BYTES + kept * each) / GIB, ngettext(
        "{count} checkpoint of {size} on this node, according to the planner",
        "{count} checkpoints of {size} each on this node, according to the planner",
        kept,
        size=format_gib(each),
    )


def count_saves(job: RecipeJob) -> int:
    """Return how many checkpoints exist at the same time, at least 1."""
    most, every = job.steps.get("max"), job.steps.get("save")
    written = -(-most // every) if most and every else 1
    limit = next(iter(parse_rows(job.arguments).get("save_total_limit", ())), "")
    kept = min(written, int(limit)) if limit.isascii() and limit.isdecimal() and int(limit) else written
    return max(1, min(kept, MOST_SAVES))

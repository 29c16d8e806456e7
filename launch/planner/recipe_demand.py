"""What a recipe's job requires of this machine, by the recipe's own figures and by the planner's: for every judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts, Wanted
from envcheck.core.units import GIB, MIB, gib
from installers.recipes.recipe import Recipe, RecipeJob, wanted
from launch.planner import LaunchPlan, fit, recipe_job
from launch.rendering.rows import rows

OUTPUT_BYTES = 200 * MIB  # logs, record and checkpoints of the smallest model, with room to spare
MOST_SAVES = 1000
NO_MODELS: Mapping[str, Mapping[str, Any]] = {}


def build_demand(
    recipe: Recipe,
    job: RecipeJob,
    facts: Facts,
    selected: tuple[int, ...] | None = None,
    models: Mapping[str, Mapping[str, Any]] = NO_MODELS,
) -> tuple[Wanted, LaunchPlan | None]:
    """The demand on this machine's cards, of which the `selected` places alone where some are, and the planner's plan.

    `models` are what was found in folders of models, whose own config.json counts.  The disk space includes that of
    weights and packages, which `count_output` leaves out.
    """
    try:
        plan = fit.planned(recipe, job, facts, selected)
        fits = fit.told(recipe, job, plan)
    except EnvcheckError as err:
        plan, fits = None, fit.refused(err)
    asked = wanted(recipe, job)
    host_gib = max(asked.host_memory_gib or 0.0, plan.host / GIB if plan else 0.0)
    output_gib, reason = count_output(job, plan)
    made = replace(
        asked,
        devices=selected,
        fit=fits,
        degrees=recipe_job.judged(recipe, job, facts, models),
        host_memory_gib=host_gib or None,
        disk_gib=max(asked.disk_gib or 0.0, output_gib),
        disk_reason=reason,
    )
    return made, plan


def count_output(job: RecipeJob, plan: LaunchPlan | None) -> tuple[float, str]:
    """GiB for logs and for as many checkpoints as are kept, by the planner or else by the recipe's job; and how they
    were counted."""
    if plan is None:
        return max(OUTPUT_BYTES / GIB, job.disk_gib or 0.0), ""
    # This node's share of one checkpoint, without the weights that the planner counts besides.
    each, kept = int(plan.disk - 2.0 * plan.job.model.params), count_saves(job)
    return (OUTPUT_BYTES + kept * each) / GIB, f"{kept} checkpoints of {gib(each)} each on this node, by the planner"


def count_saves(job: RecipeJob) -> int:
    """Checkpoints that stand at once: one at least, at the end."""
    most, every = job.steps.get("max"), job.steps.get("save")
    made = -(-most // every) if most and every else 1
    limit = next(iter(rows(job.arguments).get("save_total_limit", ())), "")
    kept = min(made, int(limit)) if limit.isascii() and limit.isdecimal() and int(limit) else made
    return max(1, min(kept, MOST_SAVES))

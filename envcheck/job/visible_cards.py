"""Make a job's launcher use certain cards: by the list of visible devices, or by its own option.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.vendor import Vendor
from installers.recipes.recipe import Recipe, RecipeJob

TOKEN = "{devices}"


def select_numbers(recipe: Recipe, job: RecipeJob, vendor: Vendor, numbers: Sequence[int]) -> RecipeJob:
    """Return the job on the cards with these numbers, as they are counted where it runs.

    A launcher counts among the visible devices.  So a job whose environment lists them gets the list, and its launcher
    the first of these; else the launcher's option names the cards, and no list may hide any.
    """
    listed = vendor.visible_env in {**recipe.environment, **job.environment}
    launched = any(TOKEN in word for word in (*job.launcher, *job.arguments))
    ordered = _order_like_tool(recipe, job, vendor)
    if launched and not listed:
        return replace(job, numbers=tuple(numbers), unset=(*job.unset, vendor.visible_env), environment=ordered)
    if not vendor.visible_env:
        return replace(job, numbers=tuple(numbers))
    return replace(job, environment={**ordered, vendor.visible_env: ",".join(map(str, numbers))})


def drop_numbers(job: RecipeJob, vendor: Vendor) -> RecipeJob:
    """Return the job without the choice of cards, which may differ between the nodes of a job."""
    own = (vendor.visible_env, vendor.order_variable[0])
    kept = {name: value for name, value in job.environment.items() if name not in own}
    return replace(job, numbers=(), environment=kept)


def _order_like_tool(recipe: Recipe, job: RecipeJob, vendor: Vendor) -> dict[str, str]:
    """Return the job's environment with the variable that makes programs number the cards like the tool."""
    name, value = vendor.order_variable
    if not name or name in recipe.environment:
        return dict(job.environment)
    return {name: value, **job.environment}

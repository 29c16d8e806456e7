"""A job of the user's own in the form of a recipe, so that everything that judges a recipe judges it too."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.lint.own_job import OwnJob
from installers.recipes.recipe import Recipe


@dataclass(frozen=True)
class OwnRecipe(Recipe):
    """A recipe of one job, whose command `own` runs unchanged in the user's own environment."""

    own: OwnJob | None = None


def find_own_job(recipe: Recipe) -> OwnJob | None:
    """Return the user's own job of a recipe; None for a recipe of a file."""
    return recipe.own if isinstance(recipe, OwnRecipe) else None


def uses_own_environment(recipe: Recipe) -> bool:
    """Whether the job runs in the environment of the user who starts it, which envcheck neither makes nor checks."""
    return recipe.own_environment or find_own_job(recipe) is not None

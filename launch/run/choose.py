"""Which stage a request means, and what request and stage fill into the command."""

from __future__ import annotations

from pathlib import Path

from envcheck.core.facts import Facts
from envcheck.job.values import fill_values
from installers.recipes.recipe import Recipe, RecipeJob
from launch.run.host import HostStage
from launch.targets.request import TrainRequest
from launch.targets.stage import Stage


def choose(recipe: Recipe, job: RecipeJob, folder: Path, own: bool, facts: Facts) -> Stage:
    """`folder` is the virtual environment of this host; `own`: it was asked for, whatever the recipe says.

    A recipe with an image runs in its container; whoever is inside one already is taken to be in that.
    """
    if recipe.image is None or own:
        return HostStage(recipe, folder)
    if (facts.host and facts.host.in_container) or recipe.container is None:
        return HostStage(recipe, None)
    from launch.run.container import ContainerStage  # loads the docker SDK

    return ContainerStage(recipe, job.role, facts)


def filled(request: TrainRequest, recipe: Recipe, stage: Stage, run: Path) -> dict[str, str]:
    return {**stage.values(run), **fill_values(request, recipe, None)}

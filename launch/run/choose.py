"""Which stage a request means, and what request and stage fill into the command."""

from __future__ import annotations

from pathlib import Path

from installers.recipes.recipe import Job, Recipe
from launch.job.choose_job import fill_values
from launch.job.request import Request
from launch.job.stage import Stage
from launch.run.host import HostStage


def choose(recipe: Recipe, job: Job, folder: Path, own: bool, in_container: bool | None) -> Stage:
    """`folder` is the virtual environment of this host; `own`: it was asked for, whatever the recipe says.

    A recipe with an image runs in its container; whoever is inside one already is taken to be in that.
    """
    if recipe.image is None or own:
        return HostStage(recipe, folder)
    if in_container or recipe.container is None:
        return HostStage(recipe, None)
    from launch.run.container import ContainerStage  # loads the docker SDK

    return ContainerStage(recipe, job.role)


def filled(request: Request, recipe: Recipe, stage: Stage, run: Path) -> dict[str, str]:
    return {**stage.values(run), **fill_values(request, recipe, None)}

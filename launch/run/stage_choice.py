"""Choose the place where a job runs, and the values of the command's placeholders."""

from __future__ import annotations

from pathlib import Path

from envcheck.collect import answer_sources
from envcheck.core.facts import Facts
from envcheck.job.command_values import fill_values
from installers.recipes.own_recipe import uses_own_environment
from installers.recipes.recipe import Recipe, RecipeJob
from launch.run.host_stage import HostStage
from launch.targets.stage import Stage
from launch.targets.train_request import TrainRequest


def choose_stage(
    recipe: Recipe, job: RecipeJob, folder: Path, own: bool, facts: Facts, cards: tuple[int, ...] = ()
) -> Stage:
    """Return the place: `folder`, a virtual environment of this host, or the recipe's container.

    `own`: the user requested `folder` with --into, even for a recipe with an image.  If envcheck itself runs in a
    container, this is assumed to be the recipe's.  `cards` are the device node numbers of the job's container.
    """
    if uses_own_environment(recipe) and not own:
        return HostStage(recipe, None)
    place = _choose_place(recipe, job, folder, own, facts, cards)
    if recipe.name in answer_sources.list_simulated_recipes():
        from launch.run.simulated_stage import SimulatedStage

        return SimulatedStage(recipe, place, facts)
    return place


def _choose_place(
    recipe: Recipe, job: RecipeJob, folder: Path, own: bool, facts: Facts, cards: tuple[int, ...]
) -> Stage:
    if recipe.image is None or own:
        return HostStage(recipe, folder)
    if (facts.host and facts.host.in_container) or recipe.container is None:
        return HostStage(recipe, None)
    from launch.run.container_stage import ContainerStage  # imports the docker SDK

    return ContainerStage(recipe, job.role, facts, cards)


def fill_command_values(request: TrainRequest, recipe: Recipe, stage: Stage, run: Path) -> dict[str, str]:
    """Return the values of all placeholders for a run."""
    return {**stage.placeholder_values(run), **fill_values(request, recipe, None)}

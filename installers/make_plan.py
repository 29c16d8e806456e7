"""What is wanted + what the target is like → the plan, for a virtual environment and a container alike.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core import errors
from installers.bundle import weights_plan
from installers.plan import preconditions
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan, Step
from installers.recipes.by_hand import by_hand
from installers.recipes.recipe import Recipe
from installers.recipes.recipe_digest import digest
from installers.software import sources
from installers.state.environment import fits
from installers.steps.dispatch import plan_steps
from installers.steps.target_state import DesiredState, TargetState


def make_plan(desired: DesiredState, current: TargetState, folder: Path) -> Plan:
    """`folder` is this host's, for our notes."""
    recipe, weights, supply = desired.recipe, current.weights, desired.supply
    steps = tuple(replace(step, root=current.why_root(step)) for step in plan_steps(desired, current))
    unfit = tuple(preconditions.obstacles(recipe, desired.facts, desired.role))
    return Plan(
        recipe.name,
        folder,
        steps,
        tuple(_satisfied(desired, current, steps)),
        tuple(preconditions.driver_by_hand(recipe, desired.driver)),
        tuple(_obstacles(desired, current, steps, unfit)),
        boxed=current.container,
        left_out=tuple(weights_plan.left_out(recipe, weights, supply)),
        mind=(
            *current.doubts(desired, steps),
            *preconditions.mind(recipe, desired.facts, desired.role, desired.findings),
            *(() if steps else (o.why for o in unfit)),
        ),
    )


def plan_by_hand(recipe: Recipe, folder: Path, driver: str | None, architecture: str) -> Plan:
    """Of a recipe whose packages belong into its image, where that is left to a person: nothing is put here."""
    return Plan(
        recipe.name,
        folder,
        (),
        tuple(preconditions.satisfied_driver(recipe, driver)),
        (*preconditions.driver_by_hand(recipe, driver), *by_hand(recipe, architecture)),
    )


def _satisfied(desired: DesiredState, current: TargetState, steps: tuple[Step, ...]) -> Iterator[str]:
    recipe, env = desired.recipe, current.kept
    yield from preconditions.satisfied_driver(recipe, desired.driver)
    yield from current.satisfied()
    if env and not current.is_torn:
        for package in recipe.packages:
            if fits(package, env.packages):
                yield f"{package.name} {env.packages[canonicalize_name(package.name.partition('[')[0])]}"
        if not any(step.changes_environment for step in steps):
            yield f"proved to work (mark {digest(desired.supply.recipe)})"
            yield from desired.supply.words
    yield from sources.so(recipe, current.sources, desired.role)
    yield from weights_plan.so(current.weights, desired.supply)


def _obstacles(
    desired: DesiredState, current: TargetState, steps: tuple[Step, ...], unfit: tuple[Obstacle, ...]
) -> list[Obstacle]:
    """What is wrong with the command comes first, as its exit code counts.  Nothing is in the way of no step, but for
    weights that the user named."""
    found = [
        *unfit,
        *current.obstacles(desired, steps),
        *desired.supply.obstacles(current.python, desired.driver),
        *sources.obstacles(desired.recipe, current.sources, desired.role),
    ]
    of_weights = weights_plan.obstacles(desired.recipe, current.weights, desired.supply)
    return sorted((*(found if steps else ()), *of_weights), key=lambda obstacle: obstacle.code != errors.USAGE)

"""Make a plan from the desired and the current state, for virtual environments and containers.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.compat import image_versions
from envcheck.core import errors
from envcheck.core.messages import NOTHING, Message, _, fill, verbatim
from envcheck.settings.site_access import show_values
from installers.bundle import weights_plan
from installers.plan import preconditions
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan, Step
from installers.recipes.fingerprint import compute_fingerprint
from installers.recipes.manual_steps import list_manual_steps
from installers.recipes.recipe import CONTAINER, Recipe
from installers.software import sources
from installers.state.environment import is_satisfied
from installers.steps.dispatch import plan_steps
from installers.steps.target_state import DesiredState, TargetState


def make_plan(desired: DesiredState, current: TargetState, folder: Path) -> Plan:
    """Return the plan; `folder` is on this host, for envcheck's records."""
    recipe, weights, supply = desired.recipe, current.weights, desired.supply
    steps = tuple(replace(step, root=current.why_root(step)) for step in plan_steps(desired, current))
    judged = preconditions.judge_jobs(recipe, desired.facts, desired.role)
    unfit = tuple(preconditions.find_obstacles(judged))
    return Plan(
        recipe.name,
        folder,
        steps,
        tuple(_list_satisfied(desired, current, steps)),
        (*(current.list_manual() if steps else ()), *preconditions.list_manual_driver(recipe, desired.driver)),
        tuple(_list_obstacles(desired, current, steps, unfit)),
        container=current.container_name,
        skipped=tuple(weights_plan.describe_skipped(recipe, weights, supply)),
        notes=(
            *current.list_doubts(desired, steps),
            *(_describe_place(recipe) if steps else ()),
            *(_describe_image(desired, current) if steps else ()),
            *preconditions.list_cautions(judged, desired.findings),
            *(() if steps else (o.why for o in unfit)),
        ),
        site=show_values(supply.site),
    )


def _describe_place(recipe: Recipe) -> Iterator[Message]:
    """Yield where the set-up runs best and why, if another recipe runs it elsewhere."""
    if recipe.alternative:
        note = recipe.notes.get("prefers")
        yield _(
            "this set-up prefers the {place}: {reason}; recipe {alternative} runs it {elsewhere}",
            place=_("container") if recipe.prefers == CONTAINER else _("host"),
            reason=fill(note.reason) if note else NOTHING,
            alternative=recipe.alternative,
            elsewhere=_("on the host") if recipe.image else _("in a container"),
        )


def _describe_image(desired: DesiredState, current: TargetState) -> Iterator[Message]:
    image = desired.image if current.container_name else None
    if contents := image_versions.find_image_versions(image) if image else None:
        yield _("the image contains {contents}", contents=image_versions.list_versions(contents))


def plan_by_hand(recipe: Recipe, folder: Path, driver: str | None, architecture: str) -> Plan:
    """Return a plan with manual steps only, for a recipe whose packages must be installed in its image."""
    return Plan(
        recipe.name,
        folder,
        (),
        tuple(preconditions.satisfied_driver(recipe, driver)),
        (*preconditions.list_manual_driver(recipe, driver), *list_manual_steps(recipe, architecture)),
    )


def _list_satisfied(desired: DesiredState, current: TargetState, steps: tuple[Step, ...]) -> Iterator[Message]:
    recipe, env = desired.recipe, current.kept_environment
    yield from preconditions.satisfied_driver(recipe, desired.driver)
    yield from current.list_satisfied()
    if env and not current.is_torn:
        for package in recipe.packages:
            if is_satisfied(package, env.packages):
                version = env.packages[canonicalize_name(package.name.partition("[")[0])]
                yield verbatim(f"{package.name} {version}")
        if not any(step.changes_environment for step in steps):
            yield _("verified (fingerprint {digest})", digest=compute_fingerprint(desired.supply.recipe))
            yield from desired.supply.lock_summary
    yield from sources.describe_satisfied(recipe, current.sources, desired.role)
    yield from weights_plan.describe_satisfied(current.weights, desired.supply)


def _list_obstacles(
    desired: DesiredState, current: TargetState, steps: tuple[Step, ...], unfit: tuple[Obstacle, ...]
) -> list[Obstacle]:
    """Return the obstacles, wrong usage first, because the first one decides the exit code.

    Without steps there are none, except for weights that the user named.
    """
    found = [
        *unfit,
        *current.find_obstacles(desired, steps),
        *desired.supply.find_obstacles(current.python_version, desired.driver),
        *sources.find_obstacles(desired.recipe, current.sources, desired.role),
    ]
    of_weights = weights_plan.find_obstacles(desired.recipe, current.weights, desired.supply)
    return sorted((*(found if steps else ()), *of_weights), key=lambda obstacle: obstacle.code != errors.USAGE)

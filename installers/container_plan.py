"""Recipe + what there is → the steps to its running, proved container.  Pure: looks at nothing but its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envcheck.core import errors
from envcheck.core.units import MIB, mib
from installers.bundle import weights_plan
from installers.bundle.image_layout import BundledImage
from installers.bundle.sources import Supply
from installers.container_state import ContainerState
from installers.containers.compare import Action
from installers.containers.spec_from_recipe import ContainerPlan
from installers.images.image import UNPACKED
from installers.plan import preconditions
from installers.plan.accelerator import Accelerators
from installers.plan.requirement import Obstacle
from installers.recipes.by_hand import driver_by_hand, driver_fits
from installers.recipes.recipe import Recipe, by_index
from installers.software import sources
from installers.state.environment import digest, proven, within
from installers.state.state_file import TEARING
from installers.steps import from_sources
from installers.steps import weights as weights_step
from installers.steps.model import Plan, Step, Where, install, lacking, proof, there_already

TITLES = {
    Action.CREATE: ("make and start the container {0}", "there is none of that name"),
    Action.START: ("start the container {0}", "it is there and does not run"),
    Action.RECREATE: ("make the container {0} anew", "it differs from the recipe in {1}"),
}
_MOVED = "; its tag leads there then, and the one that is here keeps its digest alone"


def plan(
    recipe: Recipe,
    sight: ContainerState,
    folder: Path,
    driver: str | None,
    role: str = "",
    supply: Supply | None = None,
    weights: weights_plan.WeightsState | None = None,
    cards: Accelerators | None = None,
) -> Plan:
    """`driver` is the version of the accelerator's driver, None where nobody could tell.  With a `supply`, `recipe` is
    the narrowed one.  `cards` are judged where they are given."""
    drawn = sight.drawn
    assert drawn
    supply, weights = supply or Supply(recipe), weights or weights_plan.WeightsState()
    where = Where(f"the container {drawn.spec.name}", f"docker exec {drawn.spec.name} {recipe.interpreter}")
    steps = [*_pull(recipe, sight, supply), *_container(sight, drawn), *_inside(recipe, sight, where, role, supply)]
    so = tuple(_satisfied(recipe, sight, drawn, driver, bool(steps), supply))
    steps += weights_step.steps(recipe, weights, supply)
    so = (*so, *sources.so(recipe, sight.sources, role), *weights_plan.so(weights, supply))
    python = sight.environment.python if sight.environment else ""
    unfit = tuple(preconditions.obstacles(recipe, cards, role))
    against = (
        *unfit,
        *_obstacles(recipe, sight, drawn),
        *supply.obstacles(python, driver),
        *sources.obstacles(recipe, sight.sources, role),
    )
    return Plan(
        recipe.name,
        folder,
        tuple(steps),
        so,
        tuple(driver_by_hand(recipe, driver)),
        (*(against if steps else ()), *weights_plan.obstacles(recipe, weights, supply)),
        boxed=drawn.spec.name,
        left_out=tuple(weights_plan.left_out(recipe, weights, supply)),
        mind=(*preconditions.mind(recipe, cards, role), *(() if steps else (each.why for each in unfit))),
    )


def _pull(recipe: Recipe, sight: ContainerState, supply: Supply) -> Iterator[Step]:
    if sight.here:
        return
    if supply.bundle and supply.bundle.image:
        yield _load(recipe, sight, supply.bundle.path, supply.bundle.image)
        return
    found = sight.found
    name = str(found.reference) if found else (sight.drawn.spec.image if sight.drawn else "")
    size = f" ({mib(found.compressed_bytes / MIB)} to fetch)" if found else ""
    yield Step(
        "image",
        f"pull {name}" + (f" for {found.architecture}" if found else ""),
        "the engine has another one under this name: the tag has moved"
        if sight.moved
        else "the engine does not have it",
        f"adds the image to {sight.engine.root or 'the engine'}{size}{_MOVED if sight.moved else ''}",
        f"envcheck provision --recipe {recipe.name} --undo, or docker image rm",
        round(found.compressed_bytes * UNPACKED / MIB) if found else 0,
        image=found,
        moves=sight.moved,
    )


def _load(recipe: Recipe, sight: ContainerState, path: Path, found: BundledImage) -> Step:
    size = sum(layer.size for layer in found.layers)
    return Step(
        "load",
        f"load the image {found.reference} from the bundle {path.name}",
        "the engine does not have it",
        f"adds the image to {sight.engine.root or 'the engine'}",
        f"envcheck provision --recipe {recipe.name} --undo, or docker image rm",
        round(size / MIB),
    )


def _container(sight: ContainerState, drawn: ContainerPlan) -> Iterator[Step]:
    action = sight.standing.action if sight.standing else Action.CREATE
    if action not in TITLES:
        return
    differing = ", ".join(d.field for d in sight.standing.differences) if sight.standing else ""
    title, why = TITLES[action]
    folders = f", and makes {', '.join(drawn.folders)}" if drawn.folders else ""
    yield Step(
        "container",
        title.format(drawn.spec.name),
        why.format("", differing),
        f"the engine runs it: {drawn.cards}{folders}",
        f"docker rm --force {drawn.spec.name}",
        drawn=drawn,
        recreate=action is Action.RECREATE,
        root=f"{', '.join(sight.of_root)} would be root's" if sight.of_root else "",
    )


def _inside(recipe: Recipe, sight: ContainerState, where: Where, role: str, supply: Supply) -> Iterator[Step]:
    """What goes into the container; where it does not run yet all of it, since nobody knows what the image holds."""
    env = sight.environment
    again = bool(env and (env.torn or (env.mark and env.mark.doing in TEARING)))
    steps = [
        install(group, env.packages if env else {}, where, again, env is not None, supply.wheels or (), supply.name)
        for _, group in by_index(recipe.packages)
        if env is None or again or lacking(group, env.packages, supply.wheels or ())
    ]
    steps += from_sources.steps(recipe, sight.sources, role)
    yield from steps
    if steps or env is None or not proven(supply.recipe, env):
        yield proof(recipe, bool(sight.mark))


def _satisfied(
    recipe: Recipe, sight: ContainerState, drawn: ContainerPlan, driver: str | None, steps: bool, supply: Supply
) -> Iterator[str]:
    if driver_fits(recipe, driver):
        yield f"driver {driver}, {recipe.driver_minimum} or newer is wanted"
    if sight.here:
        yield f"image {drawn.spec.image}"
    if sight.unasked:
        yield f"it is used as it is here: whether its tag leads elsewhere by now could not be asked ({sight.unasked})"
    if sight.running:
        yield f"container {drawn.spec.name}: {drawn.cards}"
    env = sight.environment
    if env:
        yield from there_already(recipe, env)
        if not steps:
            yield f"proved to work (mark {digest(supply.recipe)})"
            yield from supply.words


def _obstacles(recipe: Recipe, sight: ContainerState, drawn: ContainerPlan) -> Iterator[Obstacle]:
    for problem in (sight.engine.problem, sight.image_problem, sight.room):
        if problem:
            yield Obstacle(problem.message, problem.next_step, errors.UNFIT)
    yield from drawn.obstacles
    for folder in sight.closed:
        yield Obstacle(f"{folder} cannot be made by this user", "start in a folder of yours")
    if sight.standing and sight.standing.obstacle:
        shown = [
            f"{d.field}: wanted {d.wanted or 'none'}, there {d.there or 'none'}" for d in sight.standing.differences
        ]
        found = sight.standing.obstacle
        yield Obstacle(found.why + (f" ({'; '.join(shown)})" if shown else ""), found.remedy, found.code)
    env = sight.environment
    if env and not within(env.python, recipe.python):
        yield Obstacle(
            f"the container's Python {env.python} is not one that {recipe.name} takes ({recipe.python})",
            "the image is not the recipe's: docker image inspect",
        )
    if env and "pip" not in env.packages:
        yield Obstacle(f"the container's {recipe.interpreter} has no pip", "the image is not the recipe's")

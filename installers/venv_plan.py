"""Recipe + a virtual environment + this host → the missing steps.  Pure: looks at nothing but its arguments."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from envcheck.core import errors
from envcheck.core.units import MIB, mib
from installers.bundle import weights_plan
from installers.bundle.sources import Supply
from installers.plan import preconditions
from installers.plan.accelerator import Accelerators
from installers.plan.host_facts import Place
from installers.plan.package_sizes import SMALL_MIB
from installers.plan.requirement import Obstacle
from installers.recipes.by_hand import by_hand, driver_fits
from installers.recipes.recipe import Library, Package, Recipe, by_index
from installers.software import sources
from installers.software.sources import Sources
from installers.state.environment import Environment, FolderKind, digest, fits, proven, within
from installers.state.state_file import TEARING
from installers.steps import from_sources
from installers.steps import weights as weights_step
from installers.steps.model import SPARE_MIB, Plan, Step, Where, install, lacking, proof, there_already


def plan(
    recipe: Recipe,
    env: Environment,
    place: Place,
    *,
    in_container: bool = False,
    driver: str | None = None,
    architecture: str = "",
    seen: Sources | None = None,
    role: str = "",
    supply: Supply | None = None,
    weights: weights_plan.WeightsState | None = None,
    cards: Accelerators | None = None,
) -> Plan:
    """What has to be done to `env`; `in_container`: packages belong into the recipe's image, none are put here.

    `driver` is the version of the accelerator's driver, None where nobody could tell; `architecture`
    the processor's, for the image that a person pulls; `seen` are clones and builds,
    `role` is this node's where the recipe has several.  With a `supply`, `recipe` is the narrowed one.  `cards` are
    judged where they are given.
    """
    seen, supply, weights = seen or Sources(), supply or Supply(recipe), weights or weights_plan.WeightsState()
    hands = tuple(by_hand(recipe, in_container, env.folder, driver, architecture))
    so = (f"driver {driver}, {recipe.driver_minimum} or newer is wanted",) if driver_fits(recipe, driver) else ()
    if in_container:
        return Plan(recipe.name, env.folder, (), so, hands)
    rebuild = env.ours and _unusable(recipe, env)
    again = not rebuild and bool(env.torn or (env.mark and env.mark.doing in TEARING))
    there: Mapping[str, str] = {} if rebuild else env.packages
    steps = list(_base(recipe, env, place, rebuild))
    for _, group in by_index(recipe.packages):
        if again or lacking(group, there, supply.wheels or ()):
            steps.append(install(group, there, _where(env), again, locked=supply.wheels or (), source=supply.name))
    for library in recipe.libraries:
        package = Package(library.package, library.specifier)
        if library.name in place.lacking and (again or not fits(package, there)):
            steps.append(_lend(library, package, env, again))
    steps += from_sources.steps(recipe, seen, role)
    if steps or not proven(supply.recipe, env):
        steps.append(proof(recipe, bool(env.mark)))
    anew = bool(steps)
    steps += weights_step.steps(recipe, weights, supply)
    steps = [_by_root(step, env, place) for step in steps]
    so = (*so, *sources.so(recipe, seen, role), *weights_plan.so(weights, supply))
    satisfied = so if again else (*so, *_satisfied(recipe, env, rebuild, anew, supply))
    made = Plan(recipe.name, env.folder, tuple(steps), satisfied, hands)
    unfit = tuple(preconditions.obstacles(recipe, cards, role))
    against = [
        *supply.obstacles(place.python if rebuild else env.python, driver),
        *_obstacle(recipe, env, place, made),
        *unfit,
        *sources.obstacles(recipe, seen, role),
        *_closed(made, place),
    ]
    return replace(
        made,
        obstacles=(*weights_plan.obstacles(recipe, weights, supply), *(against if steps else ())),
        left_out=tuple(weights_plan.left_out(recipe, weights, supply)),
        mind=(*preconditions.mind(recipe, cards, role), *(() if steps else (each.why for each in unfit))),
    )


def _by_root(step: Step, env: Environment, place: Place) -> Step:
    """Packages go below the environment's folder, clones and builds into folders that the recipe names."""
    folder = _folder(step, env)
    return replace(step, root=f"{folder} is root's") if folder in place.of_root else step


def _folder(step: Step, env: Environment) -> str:
    named = step.checkout.directory if step.checkout else step.build.checkout if step.build else ""
    return named or str(env.folder)


def _closed(made: Plan, place: Place) -> Iterator[Obstacle]:
    """Folders outside of the environment in which this user may not write; the environment's own is `_obstacle`'s."""
    asked = [step.checkout.directory for step in made.steps if step.checkout]
    for folder in dict.fromkeys(folder for folder in asked if folder in place.closed):
        remedy = f"sudo mkdir -p {shlex.quote(folder)} && sudo chown $USER {shlex.quote(folder)}"
        yield Obstacle(f"{folder} cannot be written by this user", f"{remedy}; then repeat")


def _unusable(recipe: Recipe, env: Environment) -> bool:
    """An environment of ours that is to be made anew, or that is not made yet."""
    cut = bool(env.torn) or bool(env.mark and env.mark.doing in TEARING)
    return env.kind is not FolderKind.ENVIRONMENT or not env.works or cut or not within(env.python, recipe.python)


def _base(recipe: Recipe, env: Environment, place: Place, rebuild: bool) -> Iterator[Step]:
    if not rebuild:
        return
    undo = f"envcheck provision --recipe {recipe.name} --undo, or delete the folder"
    if env.kind is FolderKind.ENVIRONMENT or env.mark:
        why = "an earlier run did not get to its end there"
        if env.kind is FolderKind.ENVIRONMENT and not (env.torn or (env.mark and env.mark.doing)):
            why = f"its Python ({env.python or 'unknown'}) is gone or is not what the recipe takes"
        yield Step("clear", "clear what is there", why, f"empties {env.folder}, which envcheck made", "not needed")
    title = f"make a virtual environment with Python {place.python}"
    yield Step("environment", title, "there is none yet", f"fills {env.folder}", undo, 25)


def _where(env: Environment) -> Where:
    return Where(str(env.folder), str(env.interpreter))


def _lend(library: Library, package: Package, env: Environment, again: bool) -> Step:
    return Step(
        "library",
        f"lend the environment {library.name} from {package.name}{package.specifier}",
        f"this system has no {library.name}, and the wheel of {package.name} carries one",
        f"adds packages to {env.folder}, and a link {library.link}",
        f"{env.interpreter} -m pip uninstall {package.name}",
        SMALL_MIB,
        (package,),
        library=library,
        again=again,
    )


def _satisfied(recipe: Recipe, env: Environment, rebuild: bool, steps: bool, supply: Supply) -> Iterator[str]:
    if rebuild or env.kind is not FolderKind.ENVIRONMENT:
        return
    yield f"virtual environment {env.folder} with Python {env.python or 'of unknown version'}"
    yield from there_already(recipe, env)
    if not steps:
        yield f"proved to work (mark {digest(supply.recipe)})"
        yield from supply.words


def _obstacle(recipe: Recipe, env: Environment, place: Place, made: Plan) -> Iterator[Obstacle]:
    """The first thing that makes it pointless to begin: each of these brings the later ones with it."""
    new = any(step.name == "environment" for step in made.steps)
    python = place.python if new else env.python
    room = made.size_mib + SPARE_MIB
    for stands, why, remedy, code in (
        (
            place.in_the_way is not None,
            f"{place.in_the_way} is a file, no folder",
            "choose another --into",
            errors.USAGE,
        ),
        (
            env.kind is FolderKind.OTHER,
            f"{env.folder} holds other things and is no virtual environment",
            "choose an empty folder or a virtual environment for --into",
            errors.USAGE,
        ),
        (
            not new and not env.works,
            f"{env.interpreter} does not lead to a Python any more",
            "make that environment anew, or choose another --into",
            errors.USAGE,
        ),
        (
            not within(python, recipe.python),
            f"Python {python or 'of unknown version'} is not one that {recipe.name} takes ({recipe.python})",
            f"install envcheck with a Python {recipe.python}"
            if new
            else f"choose an environment with Python {recipe.python} for --into",
            errors.UNFIT if new else errors.USAGE,
        ),
        (
            new and not place.makes_environments,
            f"this Python ({place.interpreter}) cannot make virtual environments",
            "on Debian and Ubuntu: apt-get install python3-venv; then repeat",
            errors.UNFIT,
        ),
        (
            not new and "pip" not in env.packages,
            f"there is no pip in {env.folder}",
            f"{env.interpreter} -m ensurepip",
            errors.UNFIT,
        ),
        (
            not place.writable,
            f"{env.folder} cannot be written",
            "choose another --into, or set ENVCHECK_HOME to a folder of yours",
            errors.USAGE,
        ),
        (
            place.free_bytes is not None and place.free_bytes < room * MIB,
            f"{mib((place.free_bytes or 0) / MIB)} are free at {env.folder}, about {mib(room)} are needed",
            "make room, or choose another --into",
            errors.UNFIT,
        ),
    ):
        if stands:
            yield Obstacle(why, remedy, code)
            return

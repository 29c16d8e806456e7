"""The lock that every provisioning keeps beside its journal: what was put in place, merged over steps and runs."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core.errors import EnvcheckError
from envcheck.core.version import __version__
from installers.locks import lockfile
from installers.locks.lockfile import Built, Commit, DriverFile, Image, Lock, Wheel
from installers.recipes.recipe import Package, Recipe
from installers.software import checkouts
from installers.state import state_file
from installers.state.environment import fits
from installers.targets.target import Target


def path(folder: Path) -> Path:
    return state_file.folder_of(folder) / lockfile.NAME


def load(folder: Path, recipe: Recipe) -> Lock:
    """The one that is kept, as one of this state of the recipe; an empty one where there is none that can be read.

    What an earlier state of the recipe brought stays in it: what is not there any more goes in `settled`.
    """
    digest, machine = lockfile.recipe_hash(recipe), platform.machine()
    fresh = Lock(lockfile.SCHEMA, __version__, recipe.name, digest, machine)
    try:
        known = lockfile.load(path(folder))
    except EnvcheckError:
        return fresh
    return replace(known, envcheck=__version__, recipe=recipe.name, recipe_sha256=digest, architecture=machine)


def add_wheels(folder: Path, recipe: Recipe, wheels: Sequence[Wheel]) -> None:
    """At once when they are in: a run that is cut off later knows of them."""
    before = load(folder, recipe)
    lockfile.write(path(folder), replace(before, wheels=_merged(before.wheels, wheels)))


def add_driver(folder: Path, recipe: Recipe, file: DriverFile) -> None:
    """A vendor's file that was run here, in the place of an earlier one of its name."""
    before = load(folder, recipe)
    others = tuple(each for each in before.installers if each.name != file.name)
    own = {"driver": file} if file.name == "driver" else {"installers": (*others, file)}
    lockfile.write(path(folder), replace(before, **own))


def _merged(before: Sequence[Wheel], more: Sequence[Wheel]) -> tuple[Wheel, ...]:
    known = {canonicalize_name(wheel.name): wheel for wheel in (*before, *more)}
    return tuple(known.values())


def settled(
    before: Lock,
    there: Mapping[str, str],
    python: str,
    image: Image | None,
    commits: Sequence[Commit],
    builds: Sequence[Built] = (),
) -> Lock:
    """The lock without what is there no more.  Pure."""
    wheels = tuple(wheel for wheel in before.wheels if fits(Package(wheel.name, f"=={wheel.version}"), there))
    minor = ".".join(python.split(".")[:2])
    return replace(before, python=minor, image=image, wheels=wheels, checkouts=tuple(commits), builds=tuple(builds))


def commits(recipe: Recipe, target: Target) -> tuple[Commit, ...]:
    """Of the clones as they stand."""
    found = [(each, checkouts.there(target, each).commit) for each in recipe.checkouts]
    return tuple(Commit(checkouts.public(each.url), commit, each.directory) for each, commit in found if commit)


def export(folder: Path, recipe: Recipe, file: Path) -> None:
    """A copy for the user, whole or not at all; EnvcheckError where it would not bring back what is there."""
    lock = load(folder, recipe)
    known = {canonicalize_name(wheel.name) for wheel in lock.wheels}
    bare = [canonicalize_name(package.name.partition("[")[0]) for package in recipe.packages]
    unknown = [name for name in bare if name not in known]
    if unknown and not lock.image:
        why = f"no lock can be written: nobody knows from which file {unknown[0]} came, as it was there before"
        raise EnvcheckError(why, "provision into an environment of envcheck's own, or make it anew: --undo, then again")
    lockfile.write(file, lock)

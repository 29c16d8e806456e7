"""The lock of each recipe, kept beside the journal: what was put in place for it, merged over steps and runs."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
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


def path(folder: Path, recipe: str) -> Path:
    """Several recipes may share an environment: each has its own."""
    return _of_recipes(folder) / recipe / lockfile.NAME


def _of_recipes(folder: Path) -> Path:
    return state_file.folder_of(folder) / "recipes"


def _old_path(folder: Path) -> Path:
    """Where earlier versions kept one for the last recipe alone."""
    return state_file.folder_of(folder) / lockfile.NAME


def read(folder: Path, recipe: str) -> Lock | None:
    """The lock that is kept of the recipe, None where there is none; EnvcheckError where it cannot be read."""
    if path(folder, recipe).is_file():
        return lockfile.load(path(folder, recipe))
    found = lockfile.load(_old_path(folder)) if _old_path(folder).is_file() else None
    return found if found and found.recipe == recipe else None


def write(folder: Path, lock: Lock) -> None:
    """In the place of the one that an earlier version kept, too."""
    file, old = path(folder, lock.recipe), _old_path(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    lockfile.write(file, lock)
    if old.is_file() and _recipe_of(old) in ("", lock.recipe):
        old.unlink(missing_ok=True)


def _recipe_of(file: Path) -> str:
    try:
        return lockfile.load(file).recipe
    except EnvcheckError:
        return ""


def load(folder: Path, recipe: Recipe) -> Lock:
    """The one that is kept, as one of this state of the recipe; an empty one where there is none that can be read.

    What an earlier state of the recipe brought stays in it: what is not there any more goes in `settled`.
    """
    digest, machine = lockfile.recipe_hash(recipe), platform.machine()
    fresh = Lock(lockfile.SCHEMA, __version__, recipe.name, digest, machine)
    try:
        known = read(folder, recipe.name)
    except EnvcheckError:
        known = None
    if known is None:
        return fresh
    return replace(known, envcheck=__version__, recipe=recipe.name, recipe_sha256=digest, architecture=machine)


def add_wheels(folder: Path, recipe: Recipe, wheels: Sequence[Wheel]) -> None:
    """At once when they are in: a run that is cut off later knows of them."""
    before = load(folder, recipe)
    write(folder, replace(before, wheels=_merged(before.wheels, wheels)))


def add_driver(folder: Path, recipe: Recipe, file: DriverFile) -> None:
    """A vendor's file that was run here, in the place of an earlier one of its name."""
    before = load(folder, recipe)
    others = tuple(each for each in before.installers if each.name != file.name)
    own = {"driver": file} if file.name == "driver" else {"installers": (*others, file)}
    write(folder, replace(before, **own))


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
    wheels = tuple(wheel for wheel in before.wheels if _fits(wheel, there))
    minor = ".".join(python.split(".")[:2])
    return replace(before, python=minor, image=image, wheels=wheels, checkouts=tuple(commits), builds=tuple(builds))


def completed(lock: Lock, folder: Path, there: Mapping[str, str], needs: Collection[str]) -> Lock:
    """The lock with what the recipe `needs` and another recipe's provisioning put into the same environment."""
    known = [wheel for other in _others(folder, lock.recipe) for wheel in other.wheels]
    shared = [wheel for wheel in known if canonicalize_name(wheel.name) in needs and _fits(wheel, there)]
    return replace(lock, wheels=_merged(shared, lock.wheels))


def _others(folder: Path, recipe: str) -> Iterator[Lock]:
    files = [*_of_recipes(folder).glob(f"*/{lockfile.NAME}"), _old_path(folder)]
    for file in sorted(file for file in files if file.is_file()):
        with contextlib.suppress(EnvcheckError):
            if (lock := lockfile.load(file)).recipe != recipe:
                yield lock


def _fits(wheel: Wheel, there: Mapping[str, str]) -> bool:
    return fits(Package(wheel.name, f"=={wheel.version}"), there)


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

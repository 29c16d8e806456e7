"""Each recipe's lock file beside the journal: what was installed for it, merged over steps and runs."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core import paths
from envcheck.core.errors import EnvcheckError
from envcheck.core.messages import _
from envcheck.core.version import __version__
from installers.locks import lockfile
from installers.locks.lockfile import Lock, LockedBuild, LockedCommit, LockedDriverFile, LockedImage, LockedWheel
from installers.recipes.recipe import Package, Recipe
from installers.software import checkouts
from installers.state import state_file
from installers.state.environment import is_satisfied
from installers.targets.target import Target


def lock_path(folder: Path, recipe: str) -> Path:
    """Return the path of the recipe's lock; recipes may share an environment, so each has its own.

    The records of a machine's driver are of no recipe: there is one lock in their folder.
    """
    if paths.is_driver_folder(folder):
        return folder / lockfile.NAME
    return _recipes_folder(folder) / recipe / lockfile.NAME


def _recipes_folder(folder: Path) -> Path:
    return state_file.state_folder(folder) / "recipes"


def _old_path(folder: Path) -> Path:
    """Return the path that earlier versions used for the last recipe only."""
    return state_file.state_folder(folder) / lockfile.NAME


def read_lock(folder: Path, recipe: str) -> Lock | None:
    """Return the saved lock of the recipe, None if there is none.  EnvcheckError if it is unreadable."""
    if lock_path(folder, recipe).is_file():
        return lockfile.load_lock(lock_path(folder, recipe))
    found = lockfile.load_lock(_old_path(folder)) if _old_path(folder).is_file() else None
    return found if found and found.recipe == recipe else None


def write_lock(folder: Path, lock: Lock) -> None:
    """Write the lock; replaces the file of an earlier version too."""
    file, old = lock_path(folder, lock.recipe), _old_path(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    lockfile.write_lock(file, lock)
    if old.is_file() and _recipe_name(old) in ("", lock.recipe):
        old.unlink(missing_ok=True)


def _recipe_name(file: Path) -> str:
    try:
        return lockfile.load_lock(file).recipe
    except EnvcheckError:
        return ""


def load_lock(folder: Path, recipe: Recipe) -> Lock:
    """Return the saved lock updated to this recipe; an empty one if none is readable.

    Items that an earlier version of the recipe installed stay in it; `drop_missing` removes those that are gone.
    """
    digest, machine = lockfile.hash_recipe(recipe), platform.machine()
    fresh = Lock(lockfile.SCHEMA, __version__, recipe.name, digest, machine)
    try:
        known = read_lock(folder, recipe.name)
    except EnvcheckError:
        known = None
    if known is None:
        return fresh
    return replace(known, envcheck=__version__, recipe=recipe.name, recipe_sha256=digest, architecture=machine)


def add_wheels(folder: Path, recipe: Recipe, wheels: Sequence[LockedWheel]) -> None:
    """Add the wheels as soon as they are installed, so that an interrupted run leaves a record."""
    before = load_lock(folder, recipe)
    write_lock(folder, replace(before, wheels=_merge_wheels(before.wheels, wheels)))


def add_driver(folder: Path, recipe: Recipe, file: LockedDriverFile) -> None:
    """Record a vendor's installer that was run here; replaces an earlier one of the same name."""
    before = load_lock(folder, recipe)
    others = tuple(each for each in before.installers if each.name != file.name)
    own = {"driver": file} if file.name == "driver" else {"installers": (*others, file)}
    write_lock(folder, replace(before, **own))


def _merge_wheels(before: Sequence[LockedWheel], more: Sequence[LockedWheel]) -> tuple[LockedWheel, ...]:
    known = {canonicalize_name(wheel.name): wheel for wheel in (*before, *more)}
    return tuple(known.values())


def drop_missing(
    before: Lock,
    there: Mapping[str, str],
    python: str,
    image: LockedImage | None,
    commits: Sequence[LockedCommit],
    builds: Sequence[LockedBuild] = (),
) -> Lock:
    """Return the lock without items that are no longer installed."""
    wheels = tuple(wheel for wheel in before.wheels if _is_installed(wheel, there))
    minor = ".".join(python.split(".")[:2])
    return replace(before, python=minor, image=image, wheels=wheels, checkouts=tuple(commits), builds=tuple(builds))


def add_shared_wheels(lock: Lock, folder: Path, there: Mapping[str, str], needs: Collection[str]) -> Lock:
    """Return the lock plus wheels that the recipe `needs` and another recipe installed into the same environment."""
    known = [wheel for other in _other_locks(folder, lock.recipe) for wheel in other.wheels]
    shared = [wheel for wheel in known if canonicalize_name(wheel.name) in needs and _is_installed(wheel, there)]
    return replace(lock, wheels=_merge_wheels(shared, lock.wheels))


def _other_locks(folder: Path, recipe: str) -> Iterator[Lock]:
    files = [*_recipes_folder(folder).glob(f"*/{lockfile.NAME}"), _old_path(folder)]
    for file in sorted(file for file in files if file.is_file()):
        with contextlib.suppress(EnvcheckError):
            if (lock := lockfile.load_lock(file)).recipe != recipe:
                yield lock


def _is_installed(wheel: LockedWheel, there: Mapping[str, str]) -> bool:
    return is_satisfied(Package(wheel.name, f"=={wheel.version}"), there)


def read_commits(recipe: Recipe, target: Target) -> tuple[LockedCommit, ...]:
    """Return the commits of the clones as checked out."""
    found = [(each, checkouts.inspect_clone(target, each).commit) for each in recipe.checkouts]
    return tuple(
        LockedCommit(checkouts.strip_credentials(each.url), commit, each.directory) for each, commit in found if commit
    )


def _add_machine_driver(lock: Lock, recipe: Recipe) -> Lock:
    """Return the lock with the driver that was installed on this machine for no named recipe, if it lists none."""
    machine = load_lock(paths.driver_folder(recipe.device), recipe)
    return replace(lock, driver=lock.driver or machine.driver, installers=lock.installers or machine.installers)


def export_lock(folder: Path, recipe: Recipe, file: Path) -> None:
    """Write a copy for the user, complete or not at all.  EnvcheckError if it could not reproduce the environment."""
    lock = _add_machine_driver(load_lock(folder, recipe), recipe)
    known = {canonicalize_name(wheel.name) for wheel in lock.wheels}
    bare = [canonicalize_name(package.name.partition("[")[0]) for package in recipe.packages]
    unknown = [name for name in bare if name not in known]
    if unknown and not lock.image:
        why = _(
            "cannot write a lock file: the origin of the preinstalled {unknown} is unknown",
            unknown=unknown[0],
        )
        raise EnvcheckError(
            why,
            _(
                "install into an environment that envcheck creates, or recreate this one: run "
                "with --undo, then provision again"
            ),
        )
    lockfile.write_lock(file, lock)

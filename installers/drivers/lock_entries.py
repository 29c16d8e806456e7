"""What a lock says of a vendor's file, and what is written into the kept lock of the one that was run."""

from __future__ import annotations

from pathlib import Path

from envcheck.core.errors import UsageError
from installers.bundle import lock_notes
from installers.drivers import installer_tables
from installers.drivers.driver import DriverState
from installers.locks import lockfile_use
from installers.locks.lockfile import DriverFile, Lock
from installers.locks.lockfile_use import LockError
from installers.recipes.recipe import Recipe
from installers.state import journal

STEP = "driver"  # in the journal


def wanted(lock: Lock, recipe: Recipe, architecture: str, file_name: str) -> DriverFile:
    """What the lock has for the installer that a file of this name belongs to.  LockError where it has none, or is of
    another recipe or machine: the file's sum counts, so that the recipe's other words may have changed."""
    for what, said, here, step in (
        ("recipe", lock.recipe, recipe.name, f"--recipe {lock.recipe}"),
        ("architecture", lock.architecture, architecture, "take the lock of a machine like this one"),
    ):
        if said != here:
            raise LockError(f"the lock is of another {what}: it says {said}, here it is {here}", step)
    named = installer_tables.named(installer_tables.drivers_of(recipe), file_name)
    return lockfile_use.installer(lock, named.driver.name)


def compared(entry: DriverFile, seen: DriverState) -> None:
    """LockError, naming both, where the file is not the lock's."""
    if seen.sha256 != entry.sha256:
        why = f"{seen.path.name}: its SHA-256 is {seen.sha256}, the lock has {entry.file} with {entry.sha256}"
        raise LockError(why, f"get {entry.file}; or without --locked, where this file is meant")


def published(entry: DriverFile, file_name: str) -> None:
    """LockError where the vendor publishes another file than the lock's."""
    if entry.file != file_name:
        why = f"the lock has {entry.file}, the recipe knows where {file_name} is published"
        raise LockError(why, f"get {entry.file} from the vendor: --driver {entry.file}")


def agreeing(entry: DriverFile, sha256: str) -> None:
    """UsageError where --sha256 says something else."""
    if sha256 and sha256 != entry.sha256:
        raise UsageError(f"--sha256 is not the sum that the lock has for {entry.file}", f"the lock's is {entry.sha256}")


def keep(folder: Path, recipe: Recipe, seen: DriverState) -> Path:
    """The file into the kept lock; where that stands."""
    file = DriverFile(seen.path.name, seen.sha256, seen.version, seen.driver.name)
    lock_notes.add_driver(folder, recipe, file)
    return lock_notes.path(folder, recipe.name)


def unkept(folder: Path, recipe: Recipe, seen: DriverState) -> bool:
    """Whether this very file was the last one run here, by the journal, and the lock does not know of it: a run was cut
    off behind the installer's end."""
    runs = [each for each in journal.entries(folder) if each.get("step") == STEP and each.get("event") == "begun"]
    if not runs or runs[-1].get("sha256") != seen.sha256:
        return False
    known = lock_notes.load(folder, recipe)
    return all(each.sha256 != seen.sha256 for each in (known.driver, *known.installers) if each)

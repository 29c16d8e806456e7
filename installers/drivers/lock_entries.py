"""The lock file's entries for vendor installers: compare them with a file, and record the one that was run."""

from __future__ import annotations

from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, verbatim
from installers.bundle import recipe_locks
from installers.drivers import installer_tables
from installers.drivers.installation import DriverState
from installers.locks import enforcement
from installers.locks.enforcement import LockError
from installers.locks.lockfile import Lock, LockedDriverFile
from installers.recipes.recipe import Recipe
from installers.state import journal

STEP = "driver"  # step name in the journal


def find_entry(lock: Lock, recipe: Recipe, architecture: str, file_name: str) -> LockedDriverFile:
    """Return the lock's entry for the installer that matches the file name.

    LockError if there is none, or if the lock is for another recipe or architecture.  Only the file's checksum is
    compared: the recipe's other fields may have changed.
    """
    for what, listed, here, step in (
        (_("recipe"), lock.recipe, recipe.name, verbatim(f"--recipe {lock.recipe}")),
        (_("architecture"), lock.architecture, architecture, _("use a lock file from a machine of the same kind")),
    ):
        if listed != here:
            raise LockError(
                _(
                    "the lock file is for another {what}: expected {here}, got {listed}",
                    what=what,
                    listed=listed,
                    here=here,
                ),
                step,
            )
    named = installer_tables.match_installer(installer_tables.list_drivers(recipe), file_name)
    return enforcement.find_installer(lock, named.driver.name)


def check_sum(entry: LockedDriverFile, state: DriverState) -> None:
    """LockError, naming both files, if the file is not the one in the lock."""
    if state.sha256 != entry.sha256:
        why = _(
            "{name}: the lock file lists {file} with SHA-256 {locked_sha256}, got {sha256}",
            name=state.path.name,
            sha256=state.sha256,
            file=entry.file,
            locked_sha256=entry.sha256,
        )
        raise LockError(why, _("use {file}, or omit --locked to install this file", file=entry.file))


def check_published(entry: LockedDriverFile, file_name: str) -> None:
    """LockError if the vendor publishes another file than the one in the lock."""
    if entry.file != file_name:
        why = _(
            "the lock file lists {file}, but the recipe's published file is {file_name}",
            file=entry.file,
            file_name=file_name,
        )
        raise LockError(why, _("download {file} from the vendor, then pass --install-driver {file}", file=entry.file))


def check_given_sum(entry: LockedDriverFile, sha256: str) -> None:
    """UsageError if --sha256 differs from the lock."""
    if sha256 and sha256 != entry.sha256:
        raise UsageError(
            _("--sha256 differs from the lock file's checksum for {file}", file=entry.file),
            _("the lock file lists {sha256}", sha256=entry.sha256),
        )


def record_driver(folder: Path, recipe: Recipe, state: DriverState) -> Path:
    """Record the file in the saved lock; return the lock's path."""
    file = LockedDriverFile(state.path.name, state.sha256, state.version, state.driver.name)
    recipe_locks.add_driver(folder, recipe, file)
    return recipe_locks.lock_path(folder, recipe.name)


def is_unrecorded(folder: Path, recipe: Recipe, state: DriverState) -> bool:
    """Return whether the journal shows that this file was the last one run here but the lock lacks it: the run was
    interrupted after the installer had finished.
    """
    runs = [each for each in journal.read_entries(folder) if each.get("step") == STEP and each.get("event") == "begun"]
    if not runs or runs[-1].get("sha256") != state.sha256:
        return False
    known = recipe_locks.load_lock(folder, recipe)
    return all(each.sha256 != state.sha256 for each in (known.driver, *known.installers) if each)

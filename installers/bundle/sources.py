"""What a provisioning takes, and from where: the recipe as it stands or narrowed to a lock, the network or a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envcheck.core.errors import UsageError
from installers.bundle.read_bundle import Bundle, UnpackedBundle, unpack
from installers.locks import lockfile, lockfile_use
from installers.locks.lockfile import Lock, Wheel
from installers.plan.requirement import Obstacle
from installers.recipes.recipe import Recipe

BUNDLE = "bundle"  # the target's folder for files of a bundle


@dataclass(frozen=True)
class Supply:
    """`recipe` is as its file says, what is proved and hashed; `lock` what alone may be installed.

    `boxed`: into the recipe's container, where it has one.  `weights` is the user's own folder, `fetch`: a hub's.
    `architecture` is this machine's, which a lock must be for."""

    recipe: Recipe
    lock: Lock | None = None
    bundle: Bundle | None = None
    boxed: bool = True
    weights: Path | None = None
    fetch: bool = False
    architecture: str = ""

    @property
    def narrowed(self) -> Recipe:
        """LockError where the lock is of another recipe or machine."""
        if not self.lock:
            return self.recipe
        return lockfile_use.narrowed(self.recipe, self.lock, self.architecture, boxed=self.boxed)

    @property
    def name(self) -> str:
        """The bundle's, for people."""
        return self.bundle.path.name if self.bundle else ""

    @property
    def words(self) -> tuple[str, ...]:
        """What a plan without steps says of the lock."""
        if not self.lock:
            return ()
        what = f"the bundle {self.name}" if self.bundle else "the lock"
        return (
            f"exactly as {what} has it: {len(self.lock.wheels)} files" + (", the image" if self.lock.image else ""),
        )

    def obstacles(self, python: str, driver: str | None = None) -> Iterator[Obstacle]:
        """`python` is the version of the place that the wheels go to, "" where nobody knows it yet; `driver` that of
        the cards' driver, None where nobody can tell."""
        if self.lock and (why := lockfile_use.unsuitable(self.lock, python)):
            wanted = self.lock.python or "the Python that the lock was written with"
            yield Obstacle(why, f"provision with Python {wanted}, or make a lock with this one")
        if self.lock and (why := lockfile_use.another_driver(self.lock, driver)):
            step = f"envcheck provision --recipe {self.recipe.name} --driver FILE.run --locked LOCK installs the lock's"
            yield Obstacle(why, f"{step}; {lockfile_use.NEXT}")

    @property
    def wheels(self) -> tuple[Wheel, ...] | None:
        return self.lock.wheels if self.lock else None

    @property
    def built_files(self) -> Path | None:
        """What the bundle brings of builds."""
        return self.parts.builds if self.parts else None

    @cached_property
    def parts(self) -> UnpackedBundle | None:
        """The bundle taken apart, below ENVCHECK_HOME; done once."""
        return unpack(self.bundle) if self.bundle else None


def locked(recipe: Recipe, file: str, boxed: bool, architecture: str) -> Supply:
    """Exactly what the lock says.  LockError and UsageError before anything is done."""
    made = Supply(recipe, lockfile.load(Path(file)), boxed=boxed, architecture=architecture)
    assert made.narrowed
    return made


def bundled(found: Bundle, name: str | None, device: str, model: str | None, boxed: bool, architecture: str) -> Supply:
    """Exactly what the bundle holds; UsageError where `name`, `device` or `model` ask for something else."""
    recipe = found.recipe
    for said, has in ((name, (recipe.name,)), (device, (recipe.device, "auto")), (model, recipe.models)):
        if said and said not in has:
            why = f"{found.path.name} is for {recipe.name} (--device {recipe.device}), asked for was {said}"
            raise UsageError(why, "leave --recipe, --model and --device away: the bundle says it")
    return Supply(recipe, found.lock, found, boxed, architecture=architecture)

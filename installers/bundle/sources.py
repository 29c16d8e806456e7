"""Sources of a provisioning run: the recipe, possibly narrowed to a lock, and the network or a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, ngettext
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.bundle.archive_reader import Bundle, UnpackedBundle, unpack_bundle
from installers.locks import enforcement, lockfile
from installers.locks.lockfile import Lock, LockedWheel
from installers.plan.requirement import Obstacle
from installers.recipes.recipe import Recipe

BUNDLE = "bundle"  # folder on the target for a bundle's files


@dataclass(frozen=True)
class Supply:
    """What to install and from where; `recipe` is the unmodified recipe, `lock` restricts what may be installed.

    `boxed`: into the recipe's container, if it has one.  `weights` is the user's own folder; `fetch`: download from a
    hub.  `architecture` is this machine's, and must match the lock's.  `site` is how this site reaches the outside.
    """

    recipe: Recipe
    lock: Lock | None = None
    bundle: Bundle | None = None
    boxed: bool = True
    weights: Path | None = None
    fetch: bool = False
    architecture: str = ""
    site: SiteAccess = NO_SITE

    @property
    def narrowed_recipe(self) -> Recipe:
        """The recipe restricted to the lock.  LockError if the lock is for another recipe or machine."""
        if not self.lock:
            return self.recipe
        return enforcement.narrow_recipe(self.recipe, self.lock, self.architecture, boxed=self.boxed)

    @property
    def name(self) -> str:
        """The bundle's file name; "" without a bundle."""
        return self.bundle.path.name if self.bundle else ""

    @property
    def lock_summary(self) -> tuple[Message, ...]:
        """The plan's line about the lock; empty without one."""
        if not self.lock:
            return ()
        what = _("bundle {name}", name=self.name) if self.bundle else _("the lock file")
        count = len(self.lock.wheels)
        return (
            ngettext(
                "pinned to {source}: {count} file and the image",
                "pinned to {source}: {count} files and the image",
                count,
                source=what,
            )
            if self.lock.image
            else ngettext("pinned to {source}: {count} file", "pinned to {source}: {count} files", count, source=what),
        )

    def find_obstacles(self, python: str, driver: str | None = None) -> Iterator[Obstacle]:
        """Yield what prevents installing from the lock.

        `python` is the version of the target environment, "" if unknown; `driver` is the installed driver's, None if
        unknown.
        """
        if self.lock and (why := enforcement.explain_unsuitable_wheel(self.lock, python)):
            wanted = self.lock.python or _("the Python of the lock file")
            yield Obstacle(
                why, _("provision with Python {wanted}, or create a lock file with the current Python", wanted=wanted)
            )
        if self.lock and (why := enforcement.explain_driver_mismatch(self.lock, driver)):
            step = _(
                "run `envcheck provision --recipe {recipe} --install-driver FILE.run --locked LOCK` "
                "to install the version in the lock file",
                recipe=self.recipe.name,
            )
            yield Obstacle(why, _("{step}; {next}", step=step, next=enforcement.NEXT))

    @property
    def locked_wheels(self) -> tuple[LockedWheel, ...] | None:
        """The wheels of the lock, None without a lock."""
        return self.lock.wheels if self.lock else None

    @property
    def built_files(self) -> Path | None:
        """The bundle's folder of build results, None without a bundle."""
        return self.unpacked_bundle.builds_folder if self.unpacked_bundle else None

    @cached_property
    def unpacked_bundle(self) -> UnpackedBundle | None:
        """The bundle, unpacked once below ENVCHECK_HOME."""
        return unpack_bundle(self.bundle) if self.bundle else None


def supply_from_lock(recipe: Recipe, file: str, boxed: bool, architecture: str) -> Supply:
    """Return a supply restricted to the lock.  LockError or UsageError before anything is changed."""
    made = Supply(recipe, lockfile.load_lock(Path(file)), boxed=boxed, architecture=architecture)
    assert made.narrowed_recipe
    return made


def supply_from_bundle(
    bundle: Bundle, name: str | None, device: str, model: str | None, boxed: bool, architecture: str
) -> Supply:
    """Return a supply restricted to the bundle.  UsageError if `name`, `device` or `model` request something else."""
    recipe = bundle.recipe
    for requested, has in ((name, (recipe.name,)), (device, (recipe.device, "auto")), (model, recipe.models)):
        if requested and requested not in has:
            why = _(
                "{bundle} is for recipe {recipe} (--device {device}), but {requested} was requested",
                bundle=bundle.path.name,
                recipe=recipe.name,
                device=recipe.device,
                requested=requested,
            )
            raise UsageError(why, _("omit --recipe, --model and --device: the bundle defines them"))
    return Supply(recipe, bundle.lock, bundle, boxed, architecture=architecture)

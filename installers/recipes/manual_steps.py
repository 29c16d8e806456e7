"""Steps of a recipe that envcheck does not run on a host; the user runs their commands."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.core.messages import Message, _, mark
from installers.recipes.recipe import Recipe, RecipeContainer, RecipeImage


@dataclass(frozen=True)
class ManualStep:
    """A step for the user: its name, the reason, and the commands to run, as root if `root`."""

    name: str
    why: Message
    commands: tuple[str, ...] = ()
    root: bool = False


def list_manual_steps(recipe: Recipe, architecture: str) -> Iterator[ManualStep]:
    """Yield the steps for a recipe that has an image but no container: packages go into the Python of the image."""
    image = recipe.image and find_reference(recipe.image, architecture)
    if image:
        yield ManualStep(
            mark("image"),
            _("training does not pull images; run `envcheck provision`, or pull the image yourself:"),
            (f"docker pull {shlex.quote(image)}",),
        )
    if recipe.packages:
        yield ManualStep(mark("packages"), _("install them in the container:"), tuple(_pip_lines(recipe)))
    if recipe.checkouts:
        yield ManualStep(mark("sources"), _("clone them in the container:"), tuple(_clone_lines(recipe)))


def find_reference(image: RecipeImage, architecture: str) -> str | None:
    """Return the image name for this architecture, else the first one; None if there is none."""
    return image.references.get(architecture) or next(iter(image.references.values()), None)


def list_own_folders(container: RecipeContainer) -> tuple[str, ...]:
    """Return the mounted folders below the start folder; they must exist because --mount rejects a missing source."""
    return tuple(m.source for m in container.mounts if m.source != "." and not m.source.startswith("/"))


def _pip_lines(recipe: Recipe) -> Iterator[str]:
    """Yield one pip command for consecutive packages of the same index, in the order of the recipe."""
    for address, group in itertools.groupby(recipe.packages, key=lambda package: package.index):
        index = [f"--index-url={address}"] if address else []
        wanted = [package.name + package.specifier for package in group]
        yield shlex.join((recipe.interpreter, "-m", "pip", "install", *index, *wanted))


def _clone_lines(recipe: Recipe) -> Iterator[str]:
    """Yield clone and checkout commands; `git clone --branch` accepts no commit, `git checkout` does."""
    for checkout in recipe.checkouts:
        yield shlex.join(("git", "clone", checkout.url, checkout.directory))
        yield shlex.join(("git", "-C", checkout.directory, "checkout", checkout.ref))
        if checkout.editable:
            yield shlex.join((recipe.interpreter, "-m", "pip", "install", "--editable", checkout.directory))

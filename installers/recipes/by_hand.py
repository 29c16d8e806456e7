"""What a recipe needs that envcheck does not do on a host yet, each with the commands that a person would type."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from installers.recipes.recipe import Container, Image, Recipe


@dataclass(frozen=True)
class ByHand:
    """Not done, and never said to be: what, why, and commands ready to paste, by root where `root`."""

    name: str
    why: str
    commands: tuple[str, ...] = ()
    root: bool = False


def by_hand(recipe: Recipe, architecture: str) -> Iterator[ByHand]:
    """Of a recipe with an image and no container of ours: the packages go into the image's Python."""
    image = recipe.image and reference(recipe.image, architecture)
    if image:
        yield ByHand(
            "image",
            "a training does not pull images; envcheck provision does, or by hand:",
            (f"docker pull {shlex.quote(image)}",),
        )
    if recipe.packages:
        yield ByHand("packages", "they belong into the container", tuple(_pip_lines(recipe)))
    if recipe.checkouts:
        yield ByHand("sources", "they belong into the container", tuple(_clone_lines(recipe)))


def reference(image: Image, architecture: str) -> str | None:
    """The image's name for this architecture, or for any."""
    return image.references.get(architecture) or next(iter(image.references.values()), None)


def own_folders(container: Container) -> tuple[str, ...]:
    """The folders below the one where the container is started that it mounts: --mount refuses a missing source."""
    return tuple(m.source for m in container.mounts if m.source != "." and not m.source.startswith("/"))


def _pip_lines(recipe: Recipe) -> Iterator[str]:
    """One line for neighbours of one index, in the recipe's order."""
    for address, group in itertools.groupby(recipe.packages, key=lambda package: package.index):
        index = [f"--index-url={address}"] if address else []
        wanted = [package.name + package.specifier for package in group]
        yield shlex.join((recipe.interpreter, "-m", "pip", "install", *index, *wanted))


def _clone_lines(recipe: Recipe) -> Iterator[str]:
    """clone --branch takes no commit, checkout takes commit, tag and branch."""
    for checkout in recipe.checkouts:
        yield shlex.join(("git", "clone", checkout.url, checkout.directory))
        yield shlex.join(("git", "-C", checkout.directory, "checkout", checkout.ref))
        if checkout.editable:
            yield shlex.join((recipe.interpreter, "-m", "pip", "install", "--editable", checkout.directory))

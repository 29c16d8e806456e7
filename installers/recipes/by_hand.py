"""What a recipe needs that envcheck does not do on a host yet, each with the commands that a person would type."""

from __future__ import annotations

import functools
import itertools
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.versions import at_least
from installers.recipes.container_spec import as_written
from installers.recipes.docker_cli import HERE, shell_words
from installers.recipes.recipe import Container, Image, Recipe


@dataclass(frozen=True)
class ByHand:
    """Not done, and never said to be: what, why, and commands ready to paste, by root where `root`."""

    name: str
    why: str
    commands: tuple[str, ...] = ()
    root: bool = False


def by_hand(
    recipe: Recipe, in_container: bool, folder: Path, driver: str | None, architecture: str
) -> Iterator[ByHand]:
    """`in_container`: the packages go into the image's Python, so they are a person's as well; `driver` is here."""
    yield from driver_by_hand(recipe, driver)
    image = recipe.image and in_container and reference(recipe.image, architecture)
    if image:
        yield ByHand(
            "image",
            "a training does not pull images; envcheck provision does, or by hand:",
            (f"docker pull {shlex.quote(image)}",),
        )
    if image and recipe.container:
        made = own_folders(recipe.container)
        lines = ([shlex.join(("mkdir", "-p", *made))] if made else []) + [docker_line(recipe.container, image)]
        yield ByHand(
            "container", "a training does not make containers; envcheck provision does, or by hand:", tuple(lines)
        )
    if in_container and recipe.packages:
        yield ByHand("packages", "they belong into the container", tuple(_pip_lines(recipe)))
    if in_container and recipe.checkouts:
        yield ByHand("sources", "they belong into the container", tuple(_clone_lines(recipe, in_container, folder)))


def driver_by_hand(recipe: Recipe, driver: str | None) -> Iterator[ByHand]:
    """A driver is installed from a file that a person fetches, since the vendors ask for a licence."""
    if recipe.driver_minimum and not driver_fits(recipe, driver):
        here = f"driver {driver} is here" if driver else "none is seen here"
        why = f"{here}, {recipe.driver_minimum} or newer is wanted; with the vendor's file:"
        yield ByHand("driver", why, (f"envcheck provision --recipe {recipe.name} --driver FILE.run",), True)


def driver_fits(recipe: Recipe, driver: str | None) -> bool:
    """Whether the driver is known, and new enough for the recipe."""
    return bool(driver and recipe.driver_minimum and at_least(driver, recipe.driver_minimum))


def reference(image: Image, architecture: str) -> str | None:
    """The image's name for this architecture, or for any."""
    return image.references.get(architecture) or next(iter(image.references.values()), None)


def docker_words(container: Container, image: str) -> tuple[str, ...]:
    """`docker run` as the recipe has it, quoted to be pasted in the folder from which its relative sources start."""
    return shell_words(as_written(container, image, HERE))


def own_folders(container: Container) -> tuple[str, ...]:
    """The folders below the one where the container is started that it mounts: --mount refuses a missing source."""
    return tuple(m.source for m in container.mounts if m.source != "." and not m.source.startswith("/"))


def docker_line(container: Container, image: str) -> str:
    """`docker_words` on one line."""
    return " ".join(docker_words(container, image))


def _inside(recipe: Recipe, *argv: str) -> str:
    """In the recipe's container: by a login shell, since the images put their paths into its start files."""
    if not recipe.container:
        return shlex.join(argv)
    return shlex.join(["docker", "exec", recipe.container.name, "bash", "-lc", shlex.join(argv)])


def _pip_lines(recipe: Recipe) -> Iterator[str]:
    """One line for neighbours of one index, in the recipe's order."""
    for address, group in itertools.groupby(recipe.packages, key=lambda package: package.index):
        index = [f"--index-url={address}"] if address else []
        wanted = [package.name + package.specifier for package in group]
        yield _inside(recipe, recipe.interpreter, "-m", "pip", "install", *index, *wanted)


def _clone_lines(recipe: Recipe, in_container: bool, folder: Path) -> Iterator[str]:
    """clone --branch takes no commit, checkout takes commit, tag and branch."""
    line: Callable[..., str] = functools.partial(_inside, recipe) if in_container else lambda *argv: shlex.join(argv)
    python = recipe.interpreter if in_container else str(folder / "bin" / "python")
    for checkout in recipe.checkouts:
        yield line("git", "clone", checkout.url, checkout.directory)
        yield line("git", "-C", checkout.directory, "checkout", checkout.ref)
        if checkout.editable:
            yield line(python, "-m", "pip", "install", "--editable", checkout.directory)

"""What a recipe needs that envcheck does not do on a host yet, each with the commands that a person would type."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from installers.recipe import Container, Image, Recipe


@dataclass(frozen=True)
class ByHand:
    """Not done, and never said to be: what, why, and commands ready to paste."""

    name: str
    why: str
    commands: tuple[str, ...] = ()


def by_hand(recipe: Recipe, in_container: bool) -> Iterator[ByHand]:
    """`in_container`: the packages go into the image's Python, so they are a person's as well."""
    if recipe.driver_minimum:
        doctor = f"envcheck doctor --device {recipe.device}"
        why = f"{recipe.driver_minimum} or newer; envcheck does not install drivers, and did not look here"
        yield ByHand("driver", why, (doctor,))
    image = recipe.image and reference(recipe.image, platform.machine())
    if image:
        yield ByHand("image", "envcheck does not pull images yet", (f"docker pull {shlex.quote(image)}",))
    if image and recipe.container:
        command = shlex.join(run_argv(recipe.container, image))
        yield ByHand("container", "envcheck does not start containers yet", (command,))
    if in_container and recipe.packages:
        yield ByHand("packages", "they belong into the container", tuple(_pip_lines(recipe)))
    if recipe.checkouts:
        yield ByHand("sources", "envcheck does not clone projects yet", tuple(_clone_lines(recipe)))


def reference(image: Image, architecture: str) -> str | None:
    """The image's name for this architecture, or for any."""
    return image.references.get(architecture) or next(iter(image.references.values()), None)


def run_argv(container: Container, image: str) -> list[str]:
    """`docker run` as the recipe has it.  --mount, not -v: -v makes a folder of a source that is not there."""
    single = (
        ("--name", container.name),
        ("--workdir", container.workdir),
        ("--network", container.network),
        ("--ipc", container.ipc),
        ("--pid", container.pid),
        ("--shm-size", container.shm_size),
    )
    argv = ["docker", "run", "--detach", "--interactive", "--tty", *(["--privileged"] if container.privileged else [])]
    for option, value in single:
        argv += [option, value] if value else []
    for option, values in (
        ("--cap-add", container.capabilities),
        ("--device", container.devices),
        ("--mount", [_mount(m.source, m.target, m.read_only) for m in container.mounts]),
        ("--publish", () if container.network == "host" else container.ports),
        ("--env", [f"{name}={value}" for name, value in container.environment.items()]),
    ):
        for value in values:
            argv += [option, value]
    return [*argv, image, "bash"]


def _mount(source: str, target: str, read_only: bool) -> str:
    return f"type=bind,source={source},target={target}{',readonly' if read_only else ''}"


def _pip_lines(recipe: Recipe) -> Iterator[str]:
    inside = ["docker", "exec", recipe.container.name] if recipe.container else []
    for package in recipe.packages:
        index = ["--index-url", package.index] if package.index else []
        yield shlex.join([*inside, "python", "-m", "pip", "install", *index, package.name + package.specifier])


def _clone_lines(recipe: Recipe) -> Iterator[str]:
    for checkout in recipe.checkouts:
        yield shlex.join(["git", "clone", "--branch", checkout.ref, checkout.url, checkout.directory])
        if checkout.editable:
            yield shlex.join(["python", "-m", "pip", "install", "--editable", checkout.directory])

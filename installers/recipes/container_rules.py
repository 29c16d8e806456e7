"""What a recipe's container must hold: what the engine would refuse, or take for something else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from installers.recipes.container_spec import port, size_bytes, ulimit
from installers.recipes.recipe import Container, Recipe

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")  # the engine's own rule
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """(key, what is wrong)."""
    for rule in _RULES if recipe.container else ():
        assert recipe.container
        for key, wrong in rule(recipe.container):
            yield f"container.{key}", wrong


def _names(box: Container) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(box.name):
        yield "name", f"expected letters, digits, dot, dash, underscore, found {box.name[:80]!r}"
    for name in box.environment:
        if not _VARIABLE.fullmatch(name):
            yield "environment", f"{name[:80]!r} is no name of an environment variable"


def _paths(box: Container) -> Iterator[tuple[str, str]]:
    """Inside, a path begins at the root; a relative source is a folder of the user's own and stays below it."""
    inside = [("workdir", box.workdir or "/"), *(("mounts", mount.target) for mount in box.mounts)]
    for key, path in (*inside, *(("devices", text) for text in box.devices)):
        if not path.startswith("/"):
            yield key, f"expected a path from / on, found {path[:80]!r}"
    for mount in box.mounts:
        if not mount.source or (mount.source[0] != "/" and ".." in mount.source.split("/")):
            yield "mounts", f"{mount.source[:80]!r} is no folder below the one where the container is started"


def _spellings(box: Container) -> Iterator[tuple[str, str]]:
    readings: tuple[tuple[str, Callable[[], object]], ...] = (
        ("shm_size", lambda: size_bytes(box.shm_size or "0")),
        ("ports", lambda: [port(text) for text in box.ports]),
        ("ulimits", lambda: [ulimit(name, text) for name, text in box.ulimits.items()]),
    )
    for key, read in readings:
        try:
            read()
        except ValueError as err:
            yield key, str(err)


_RULES = (_names, _paths, _spellings)

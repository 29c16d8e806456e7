"""Rules for a recipe's [container]: values that the engine would reject or misread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envcheck.core.messages import Message, _
from installers.recipes.container_spec import parse_port, parse_size, parse_ulimit
from installers.recipes.recipe import Recipe, RecipeContainer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")  # same rule as the engine
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_container(recipe: Recipe) -> Iterator[tuple[str, Message]]:
    """Yield (key, complaint) for each broken rule."""
    for rule in _RULES if recipe.container else ():
        assert recipe.container
        for key, wrong in rule(recipe.container):
            yield f"container.{key}", wrong


def _check_names(box: RecipeContainer) -> Iterator[tuple[str, Message]]:
    if not _NAME.fullmatch(box.name):
        yield "name", _("expected letters, digits, dot, dash, underscore, found {name!r}", name=box.name[:80])
    for name in box.environment:
        if not _VARIABLE.fullmatch(name):
            yield "environment", _("{name!r} is not a valid environment variable name", name=name[:80])


def _check_paths(box: RecipeContainer) -> Iterator[tuple[str, Message]]:
    """Paths in the container must be absolute; relative mount sources must stay below the start folder."""
    inside = [("workdir", box.workdir or "/"), *(("mounts", mount.target) for mount in box.mounts)]
    for key, path in (*inside, *(("devices", text) for text in box.devices)):
        if not path.startswith("/"):
            yield key, _("expected an absolute path, found {path!r}", path=path[:80])
    for mount in box.mounts:
        if not mount.source or (mount.source[0] != "/" and ".." in mount.source.split("/")):
            yield (
                "mounts",
                _("{source!r} is not inside the folder where the container is started", source=mount.source[:80]),
            )


def _check_spellings(box: RecipeContainer) -> Iterator[tuple[str, Message]]:
    readings: tuple[tuple[str, Callable[[], object]], ...] = (
        ("shm_size", lambda: parse_size(box.shm_size or "0")),
        ("ports", lambda: [parse_port(text) for text in box.ports]),
        ("ulimits", lambda: [parse_ulimit(name, text) for name, text in box.ulimits.items()]),
    )
    for key, read in readings:
        try:
            read()
        except ValueError as err:
            yield key, err.args[0]


_RULES = (_check_names, _check_paths, _check_spellings)

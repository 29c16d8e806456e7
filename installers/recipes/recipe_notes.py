"""The values of a recipe one by one, each under the key where its note stands: jobs.lora.arguments.--seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from installers.recipes.recipe import Mount, Note, Recipe

_OWN = {"notes", "file", "like"}  # not the recipe's words
_NAMES = {
    "jobs": ("method", "variant", "role"),
    "packages": ("name",),
    "drivers": ("name",),
    "builds": ("name",),
}  # what tells a list's items apart


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A value that is said; an option of a command comes with what belongs to it, as one text."""

    key: str
    value: Any
    note: Note


def leaves(recipe: Recipe) -> Iterator[Leaf]:
    """All that the recipe says, in the order of its fields; what it leaves open is not there."""
    for each in dataclasses.fields(recipe):
        if each.name not in _OWN:
            yield from _walk(recipe, each.name, getattr(recipe, each.name))


def item_key(where: str, number: int, item: Any) -> str:
    """jobs.lora, jobs.lora.nvidia, packages.numpy, else container.mounts[0]: a name says more than a number."""
    said = [item.get(name) for name in _NAMES.get(where, ())] if isinstance(item, dict) else []
    names = [name for name in said if isinstance(name, str) and 0 < len(name) < 80 and name.isprintable()]
    return ".".join([where, *names]) if names else f"{where}[{number}]"


def grouped(arguments: Iterable[str]) -> list[tuple[str, ...]]:
    """Arguments, each option with what belongs to it."""
    rows: list[list[str]] = []
    for argument in arguments:
        if argument.startswith("--") or not rows:
            rows.append([])
        rows[-1].append(argument)
    return [tuple(row) for row in rows]


def _walk(recipe: Recipe, key: str, value: Any) -> Iterator[Leaf]:
    if isinstance(value, Mount):
        words = f"{value.source} -> {value.target}{', ro' if value.read_only else ''}"
        yield Leaf(key, words, _note(recipe, f"{key}.source"))
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            inner, name = getattr(value, each.name), f"{key}.{each.name}"
            if inner != each.default or name in recipe.notes:
                yield from _walk(recipe, name, inner)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk(recipe, f"{key}.{name}", inner)
    elif isinstance(value, tuple) and value and not isinstance(value[0], str):
        for number, item in enumerate(value):
            table = dataclasses.asdict(item) if dataclasses.is_dataclass(item) and not isinstance(item, type) else None
            yield from _walk(recipe, item_key(key, number, table), item)
    elif key.endswith((".launcher", ".arguments", ".own_data")):
        program = [value[-1:]] if key.endswith(".launcher") else []
        for row in [*grouped(value[: len(value) - len(program)]), *program]:
            yield Leaf(f"{key}.{row[0]}", row, _note(recipe, f"{key}.{row[0]}", key))
    elif value not in (None, "", ()) or key in recipe.notes:
        yield Leaf(key, value, _note(recipe, key, key.rpartition("[")[0]))


def _note(recipe: Recipe, *keys: str) -> Note:
    return next((recipe.notes[key] for key in keys if key in recipe.notes), Note(""))

"""The values of a recipe as a flat list, each with its key and note: jobs.lora.arguments.--seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from installers.recipes.recipe import Mount, Recipe, SourceNote

_OWN = {"notes", "file", "like"}  # not values of the recipe
_NAMES = {
    "jobs": ("method", "variant", "role"),
    "packages": ("name",),
    "drivers": ("name",),
    "builds": ("name",),
}  # the fields that identify an item of a list


@dataclasses.dataclass(frozen=True)
class RecipeValue:
    """A value that the recipe sets, with its note; an option of a command includes its arguments."""

    key: str
    value: Any
    note: SourceNote


def list_values(recipe: Recipe) -> Iterator[RecipeValue]:
    """Yield all values that the recipe sets, in the order of its fields."""
    for each in dataclasses.fields(recipe):
        if each.name not in _OWN:
            yield from _walk_values(recipe, each.name, getattr(recipe, each.name))


def item_key(where: str, number: int, item: Any) -> str:
    """Return the key of a list item by name (jobs.lora.nvidia, packages.numpy), else by number (mounts[0])."""
    values = [item.get(name) for name in _NAMES.get(where, ())] if isinstance(item, dict) else []
    names = [name for name in values if isinstance(name, str) and 0 < len(name) < 80 and name.isprintable()]
    return ".".join([where, *names]) if names else f"{where}[{number}]"


def group_options(arguments: Iterable[str]) -> list[tuple[str, ...]]:
    """Group each option with its arguments."""
    rows: list[list[str]] = []
    for argument in arguments:
        if argument.startswith("--") or not rows:
            rows.append([])
        rows[-1].append(argument)
    return [tuple(row) for row in rows]


def _walk_values(recipe: Recipe, key: str, value: Any) -> Iterator[RecipeValue]:
    if isinstance(value, Mount):
        words = f"{value.source} -> {value.target}{', ro' if value.read_only else ''}"
        yield RecipeValue(key, words, _find_note(recipe, f"{key}.source"))
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            inner, name = getattr(value, each.name), f"{key}.{each.name}"
            if inner != each.default or name in recipe.notes:
                yield from _walk_values(recipe, name, inner)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk_values(recipe, f"{key}.{name}", inner)
    elif isinstance(value, tuple) and value and not isinstance(value[0], str):
        for number, item in enumerate(value):
            table = dataclasses.asdict(item) if dataclasses.is_dataclass(item) and not isinstance(item, type) else None
            yield from _walk_values(recipe, item_key(key, number, table), item)
    elif key.endswith((".launcher", ".arguments", ".own_data")):
        program = [value[-1:]] if key.endswith(".launcher") else []
        for row in [*group_options(value[: len(value) - len(program)]), *program]:
            yield RecipeValue(f"{key}.{row[0]}", row, _find_note(recipe, f"{key}.{row[0]}", key))
    elif value not in (None, "", ()) or key in recipe.notes:
        yield RecipeValue(key, value, _find_note(recipe, key, key.rpartition("[")[0]))


def _find_note(recipe: Recipe, *keys: str) -> SourceNote:
    return next((recipe.notes[key] for key in keys if key in recipe.notes), SourceNote(""))

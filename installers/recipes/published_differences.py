"""Where a recipe's job differs from the published document, for those who compare the two."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from installers.recipes.recipe import Recipe, RecipeJob
from installers.recipes.validation import job_key
from installers.recipes.value_notes import RecipeValue, group_options, list_values

# Parts of a job's key after its name, and parts of a recipe that decide how the job starts.
OF_JOB = ("launcher", "arguments", "environment", "parallel", "steps", "unset", "rank", "port", "nodes", "processes")
OF_RECIPE = ("environment", "prepend", "scripts", "workdir", "model_path", "runs", "interpreter", "unset", "container")
IN_OPTIONS = ("parallel", "steps")  # the same values as those of options


@dataclass(frozen=True)
class PublishedDifference:
    """`value` is what the job has, `published` what the document has, `reason` why it was changed."""

    value: str
    published: str
    reason: str


def list_differences(recipe: Recipe, job: RecipeJob) -> tuple[PublishedDifference, ...]:
    """Return the differences of a job that its recipe states, in the order of the recipe.

    `job` may have other options than in the recipe: its own values are shown, and options that it lacks are left out.
    """
    now = {row[0]: row for row in group_options(job.arguments)}
    prefix = f"{job_key(job)}."
    found = [value for value in list_values(recipe) if value.note.published is not None]
    mine = [value for value in found if value.key.startswith(prefix) and _find_part(value.key, prefix) in OF_JOB]
    has_options = any(_find_part(value.key, prefix) == "arguments" for value in mine)
    mine = [v for v in mine if not (has_options and _find_part(v.key, prefix) in IN_OPTIONS)]
    shared = [value for value in found if value.key.partition(".")[0].partition("[")[0] in OF_RECIPE]
    options = f"{prefix}arguments.--"
    current = [
        replace(value, value=now.get(value.value[0], ())) if value.key.startswith(options) else value for value in mine
    ]
    return tuple(_describe_value(value, prefix) for value in (*shared, *current) if value.value != ())


def _find_part(key: str, prefix: str) -> str:
    return key[len(prefix) :].partition(".")[0].partition("[")[0]


def _describe_value(value: RecipeValue, prefix: str) -> PublishedDifference:
    key = value.key.removeprefix(prefix)
    part, _unused, name = key.partition(".")
    if part in ("launcher", "arguments"):
        text = shlex.join(value.value)
    elif part in ("environment", "prepend"):
        text = f"{name}={value.value}"
    else:
        text = f"{key} = {_join_texts(value.value)}"
    return PublishedDifference(text, _join_texts(value.note.published), value.note.reason)


def _join_texts(value: Any) -> str:
    return ", ".join(_iterate_texts(value))


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, (tuple, list)):
        yield from map(str, value)
    else:
        yield str(value).lower() if isinstance(value, bool) else str(value)

"""Recipes for people and for programs: the table of all, and one with where each value comes from."""

from __future__ import annotations

import dataclasses
import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from installers.catalogue import device_of, is_ours
from installers.recipe import Recipe, Trap
from installers.recipe_notes import Leaf, leaves

SCHEMA = 1
_WIDTH = 116
_HEADS = ("recipe", "model", "methods", "device", "framework", "cards")
_APART = ("name", "title", "models", "traps", "documents")  # said elsewhere on the page
_IN_HEADING = ("packages.name", "jobs.method", "jobs.role")


def as_table(recipes: Iterable[Recipe]) -> str:
    """One line for each recipe; a user's own is marked."""
    from tabulate import tabulate

    rows = [
        (
            recipe.name + ("" if is_ours(recipe) else " (your own)"),
            recipe.models[0],
            " ".join(dict.fromkeys(job.method for job in recipe.jobs)),
            " + ".join(dict.fromkeys(device_of((recipe, job)) for job in recipe.jobs)),
            recipe.framework,
            " ".join(dict.fromkeys(_cards(recipe))),
        )
        for recipe in recipes
    ]
    return tabulate(rows, headers=_HEADS, tablefmt="plain", disable_numparse=True)


def _cards(recipe: Recipe) -> Iterator[str]:
    for job in recipe.jobs:
        cards = recipe.hardware.cards if job.cards is None else job.cards
        yield "-" if cards is None else f"{job.nodes}x{cards}" if job.nodes > 1 else str(cards)


def as_page(recipe: Recipe) -> str:
    """Everything that the recipe says, with sources, and what the published document said where that was a trap."""
    return "\n".join(_page(recipe))


def _page(recipe: Recipe) -> Iterator[str]:
    yield f"{recipe.name}: {recipe.title}"
    yield f"models: {', '.join(recipe.models)}"
    yield f"file: {recipe.file}"
    yield from (f"{short}: {words}" for short, words in recipe.documents.items())
    sections: dict[str, list[tuple[str, Leaf]]] = {}
    for leaf in leaves(recipe):
        head, key = _split(leaf.key)
        part = leaf.key.partition(".")[0].partition("[")[0]
        if part not in _APART and f"{part}.{key.rpartition('.')[2]}" not in _IN_HEADING:
            sections.setdefault(head, []).append((key, leaf))
    for head, found in sections.items():
        yield f"\n{head}"
        for key, leaf in found:
            yield from _leaf(key, leaf)
    if recipe.traps:
        yield "\nin the published document, and not here"
        for trap in recipe.traps:
            yield from _trap(trap)


def _split(key: str) -> tuple[str, str]:
    """The heading under which a value stands, and what is left: each job has one, what stands alone has "general"."""
    if not key.startswith("jobs."):
        head, dot, rest = key.partition(".")
        plain = head.partition("[")[0]
        return (plain, rest) if dot else (plain, head) if head != plain else ("general", head)
    for part in (".launcher", ".arguments", ".environment", ".parallel", ".steps"):
        before, found, after = key.partition(part)
        if found:
            return before, found[1:] + after
    before, _, after = key.rpartition(".")
    return before, after


def _leaf(key: str, leaf: Leaf) -> Iterator[str]:
    is_command = key.startswith(("launcher.", "arguments.", "verify["))
    text = shlex.join(leaf.value) if is_command else f"{key} = {_said(leaf.value)}"
    source = f"  [{leaf.note.source}]" if leaf.note.source else ""
    yield from _wrapped(text + source, "  ", "      ")
    if leaf.note.seed_value is not None:
        yield from _wrapped(f"published: {_said(leaf.note.seed_value)}", "      ", "        ")
    if leaf.note.reason:
        yield from _wrapped(f"why: {leaf.note.reason}", "      ", "        ")


def _trap(trap: Trap) -> Iterator[str]:
    yield from _wrapped(f"seed {trap.where}: {trap.seed_value}", "  ", "      ")
    yield from _wrapped(f"here: {trap.instead}", "      ", "        ")
    if trap.reason:
        yield from _wrapped(f"why: {trap.reason}", "      ", "        ")


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, (tuple, list)):
        return str(value) or "(nothing)"
    words = [str(item) for item in value]
    return ("; " if any(" " in word for word in words) else ", ").join(words)


def _wrapped(text: str, first: str, other: str) -> list[str]:
    made = textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=other, break_long_words=False, break_on_hyphens=False
    )
    return made or [first]


def as_json(recipes: Iterable[Recipe]) -> str:
    """One document; `notes` holds source, seed_value and reason by key."""
    return json.dumps({"schema": SCHEMA, "recipes": [_values(recipe) for recipe in recipes]}, indent=1, default=str)


def _values(recipe: Recipe) -> dict[str, Any]:
    return {**dataclasses.asdict(recipe), "own": not is_ours(recipe)}

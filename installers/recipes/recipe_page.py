"""Recipes for people and for programs: the table of all, and one with where each value comes from."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from envcheck.core.language import exact, label, say
from envcheck.core.language.width import columns, wrap
from envcheck.core.version import SCHEMA_VERSION
from installers.recipes.catalogue import device_of, is_ours
from installers.recipes.recipe import Recipe, Trap
from installers.recipes.recipe_notes import Leaf, leaves

WIDTH = 116  # where nobody says how wide the terminal is
_HEADS = ("recipe", "model", "methods", "device", "framework", "cards")
_APART = ("name", "title", "models", "traps", "documents")  # said elsewhere on the page
_IN_HEADING = ("packages.name", "jobs.method", "jobs.variant", "jobs.role")


def as_table(recipes: Iterable[Recipe], width: int = WIDTH) -> str:
    """One line for each recipe, on a narrow terminal a few; a user's own is marked."""
    rows = [
        (
            recipe.name + ("" if is_ours(recipe) else say(" (your own)")),
            recipe.models[0],
            " ".join(dict.fromkeys(job.method for job in recipe.jobs)),
            " + ".join(dict.fromkeys(device_of((recipe, job)) for job in recipe.jobs)),
            recipe.framework,
            " ".join(dict.fromkeys(_cards(recipe))),
        )
        for recipe in recipes
    ]
    table = _aligned([tuple(map(label, _HEADS)), *rows])
    if max(map(columns, table)) <= width:
        return "\n".join(table)
    return "\n".join(line for row in rows for line in _row_in_lines(row, width))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    wide = [max(map(columns, cells)) for cells in zip(*rows, strict=True)]
    padded = [[cell + " " * (w - columns(cell)) for cell, w in zip(row, wide, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]


def _row_in_lines(row: tuple[str, ...], width: int) -> list[str]:
    said = say("; ").join(f"{label(head)} {text}" for head, text in zip(_HEADS[1:], row[1:], strict=True))
    return [row[0], *_wrapped(said, "    ", "      ", width)]


def _cards(recipe: Recipe) -> Iterator[str]:
    for job in recipe.jobs:
        cards = recipe.hardware.cards if job.cards is None else job.cards
        yield "-" if cards is None else f"{job.nodes}x{cards}" if job.nodes > 1 else str(cards)


def as_page(recipe: Recipe, width: int = WIDTH, here: Iterable[str] = ()) -> str:
    """Everything that the recipe says, with sources, and what the published document said where that was a trap.

    A source beside a heading is that of every value below which names none of its own.  `here` are lines about the
    recipe's job on this machine, which come first.
    """
    return "\n".join(_page(recipe, max(width, 40), here))


def _page(recipe: Recipe, width: int, here: Iterable[str]) -> Iterator[str]:
    yield from _wrapped(f"{recipe.name}{say(': ')}{exact(recipe.title)}", "", "    ", width)
    yield from _wrapped(say("models: {}").format(", ".join(recipe.models)), "", "    ", width)
    yield say("file: {}").format(recipe.file)
    for short, words in recipe.documents.items():
        yield from _wrapped(f"{short}{say(': ')}{exact(words)}", "", "    ", width)
    yield from ("", say("on this machine"))
    for line in here:
        yield from _wrapped(line.strip(), "  ", "      ", width)
    sections: dict[str, list[tuple[str, Leaf]]] = {}
    for leaf in leaves(recipe):
        head, key = _split(leaf.key)
        part = leaf.key.partition(".")[0].partition("[")[0]
        if part not in _APART and f"{part}.{key.rpartition('.')[2]}" not in _IN_HEADING:
            sections.setdefault(head, []).append((key, leaf))
    for head, found in sections.items():
        shared = _shared_source(leaf for _, leaf in found)
        yield ""
        heading = label(head)
        yield from _wrapped(f"{heading}  [{shared}]" if shared else heading, "", "    ", width)
        for key, leaf in found:
            yield from _leaf(key, leaf, shared, width)
    if recipe.traps:
        yield f"\n{say('in the published document, and not here')}"
        for trap in recipe.traps:
            yield from _trap(trap, width)


def _shared_source(found: Iterable[Leaf]) -> str:
    """The source of most values under a heading; "" where it is said no more than twice, or one value has none."""
    sources = Counter(leaf.note.source for leaf in found)
    source, times = sources.most_common(1)[0]
    return source if times > 2 and "" not in sources else ""


def _split(key: str) -> tuple[str, str]:
    """The heading under which a value stands, and what is left: each job has one, what stands alone has "general"."""
    if not key.startswith("jobs."):
        head, dot, rest = key.partition(".")
        plain = head.partition("[")[0]
        return (plain, rest) if dot else (plain, head) if head != plain else ("general", head)
    for part in (".launcher", ".arguments", ".own_data", ".environment", ".parallel", ".steps"):
        before, found, after = key.partition(part)
        if found:
            return before, found[1:] + after
    before, _, after = key.rpartition(".")
    return before, after


def _leaf(key: str, leaf: Leaf, shared: str, width: int) -> Iterator[str]:
    is_command = key.startswith(("launcher.", "arguments.", "verify["))
    text = shlex.join(leaf.value) if is_command else f"{key} = {_said(leaf.value)}"
    source = f"  [{leaf.note.source}]" if leaf.note.source != shared else ""
    yield from _wrapped(text + source, "  ", "      ", width)
    if leaf.note.seed_value is not None:
        yield from _wrapped(say("published: {}").format(_said(leaf.note.seed_value)), "      ", "        ", width)
    if leaf.note.reason:
        yield from _wrapped(say("why: {}").format(exact(leaf.note.reason)), "      ", "        ", width)


def _trap(trap: Trap, width: int) -> Iterator[str]:
    yield from _wrapped(say("seed {}: {}").format(trap.where, exact(trap.seed_value)), "  ", "      ", width)
    yield from _wrapped(say("here: {}").format(exact(trap.instead)), "      ", "        ", width)
    if trap.reason:
        yield from _wrapped(say("why: {}").format(exact(trap.reason)), "      ", "        ", width)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, (tuple, list)):
        return exact(str(value)) or say("(nothing)")
    words = [exact(str(item)) for item in value]
    return (say("; ") if any(" " in word for word in words) else ", ").join(words)


def _wrapped(text: str, first: str, other: str, width: int) -> list[str]:
    return wrap(text, width, first, other) or [first]


def as_json(recipes: Iterable[Recipe], more: Mapping[str, Any] = MappingProxyType({})) -> str:
    """One document; `notes` holds source, seed_value and reason by key."""
    found = {"schema": SCHEMA_VERSION, "recipes": [_values(recipe) for recipe in recipes], **more}
    return json.dumps(found, indent=1, default=str)


def _values(recipe: Recipe) -> dict[str, Any]:
    return {**dataclasses.asdict(recipe), "own": not is_ours(recipe)}

"""Recipes as text and JSON: the table of all recipes, and the page of one recipe with the source of each value."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from envcheck.core.language import translate
from envcheck.core.language.width import display_width, wrap_text
from envcheck.core.messages import _, join
from envcheck.core.version import SCHEMA_VERSION
from installers.recipes.catalogue import is_ours, job_device
from installers.recipes.recipe import Recipe, Trap
from installers.recipes.value_notes import RecipeValue, list_values

WIDTH = 116  # columns, if the width of the terminal is unknown
_HEADS = (_("recipe"), _("model"), _("methods"), _("device"), _("framework"), _("cards"))
_APART = ("name", "title", "models", "traps", "documents")  # shown elsewhere on the page
_IN_HEADING = ("packages.name", "jobs.method", "jobs.variant", "jobs.role")
_TRANSLATED = ("title", "caution", "product", "published", "remedy")  # keys whose values are texts, not literals


def render_table(recipes: Iterable[Recipe], width: int = WIDTH) -> str:
    """Return one line for each recipe, several on a narrow terminal; a user's own recipes are marked."""
    rows = [
        (
            recipe.name if is_ours(recipe) else translate(_("{name} (your own)", name=recipe.name)),
            recipe.models[0],
            " ".join(dict.fromkeys(job.method for job in recipe.jobs)),
            " + ".join(dict.fromkeys(job_device((recipe, job)) for job in recipe.jobs)),
            recipe.framework,
            " ".join(dict.fromkeys(_format_cards(recipe))),
        )
        for recipe in recipes
    ]
    table = _align_columns([tuple(map(translate, _HEADS)), *rows])
    if max(map(display_width, table)) <= width:
        return "\n".join(table)
    return "\n".join(line for row in rows for line in _wrap_row(row, width))


def _align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    wide = [max(map(display_width, cells)) for cells in zip(*rows, strict=True)]
    padded = [[cell + " " * (w - display_width(cell)) for cell, w in zip(row, wide, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]


def _wrap_row(row: tuple[str, ...], width: int) -> list[str]:
    text = translate(_("; ")).join(f"{translate(head)} {cell}" for head, cell in zip(_HEADS[1:], row[1:], strict=True))
    return [row[0], *_wrap_text(text, "    ", "      ", width)]


def _format_cards(recipe: Recipe) -> Iterator[str]:
    for job in recipe.jobs:
        cards = recipe.hardware.cards if job.cards is None else job.cards
        yield "-" if cards is None else f"{job.nodes}x{cards}" if job.nodes > 1 else str(cards)


def render_page(recipe: Recipe, width: int = WIDTH, here: Iterable[str] = ()) -> str:
    """Return all values of the recipe with their sources, and the errors of the published document.

    A source next to a heading applies to all values below it that have no source of their own.  `here` are lines about
    the recipe's job on this machine; they come first.
    """
    return "\n".join(_render_sections(recipe, max(width, 40), here))


def select_method(recipe: Recipe, method: str) -> Recipe:
    """Return the recipe with the jobs of this method only, else of this variant, else with all."""
    of_method = tuple(job for job in recipe.jobs if job.method == method.lower())
    of_variant = tuple(job for job in recipe.jobs if job.variant == method.lower())
    return dataclasses.replace(recipe, jobs=of_method or of_variant or recipe.jobs)


def _render_sections(recipe: Recipe, width: int, here: Iterable[str]) -> Iterator[str]:
    yield from _wrap_text(f"{recipe.name}{translate(_(': '))}{translate(recipe.title)}", "", "    ", width)
    yield from _wrap_text(translate(_("models: {models}", models=join(", ", recipe.models))), "", "    ", width)
    shown = recipe.file if Path(recipe.file).is_file() else f"envcheck recipes show {recipe.name} --toml"
    yield translate(_("file: {file}", file=shown))
    for short, title in recipe.documents.items():
        yield from _wrap_text(f"{translate(short)}{translate(_(': '))}{translate(title)}", "", "    ", width)
    yield from ("", translate(_("on this machine")))
    for line in here:
        yield from _wrap_text(line.strip(), "  ", "      ", width)
    sections: dict[str, list[tuple[str, RecipeValue]]] = {}
    for leaf in list_values(recipe):
        head, key = _split_key(leaf.key)
        part = leaf.key.partition(".")[0].partition("[")[0]
        if part not in _APART and f"{part}.{key.rpartition('.')[2]}" not in _IN_HEADING:
            sections.setdefault(head, []).append((key, leaf))
    for head, found in sections.items():
        shared = _shared_source(leaf for _unused, leaf in found)
        yield ""
        heading = translate(_("general")) if head == "general" else head
        yield from _wrap_text(f"{heading}  [{translate(shared)}]" if shared else heading, "", "    ", width)
        for key, leaf in found:
            yield from _render_value(key, leaf, shared, width)
    if recipe.traps:
        yield f"\n{translate(_('errors in the published document'))}"
        for trap in recipe.traps:
            yield from _render_trap(trap, width)


def _shared_source(found: Iterable[RecipeValue]) -> str:
    """Return the source that most values under a heading share; "" if fewer than three do, or a value has no source."""
    sources = Counter(leaf.note.source for leaf in found)
    source, times = sources.most_common(1)[0]
    return source if times > 2 and "" not in sources else ""


def _split_key(key: str) -> tuple[str, str]:
    """Split a key into heading and rest: one heading for each job, "general" for keys without a table."""
    if not key.startswith("jobs."):
        head, dot, rest = key.partition(".")
        plain = head.partition("[")[0]
        return (plain, rest) if dot else (plain, head) if head != plain else ("general", head)
    for part in (".launcher", ".arguments", ".own_data", ".environment", ".parallel", ".steps"):
        before, found, after = key.partition(part)
        if found:
            return before, found[1:] + after
    before, _unused, after = key.rpartition(".")
    return before, after


def _render_value(key: str, leaf: RecipeValue, shared: str, width: int) -> Iterator[str]:
    is_command = key.startswith(("launcher.", "arguments.", "verify["))
    text = shlex.join(leaf.value) if is_command else f"{key} = {_format_value(leaf.value, key)}"
    source = f"  [{translate(leaf.note.source)}]" if leaf.note.source != shared else ""
    yield from _wrap_text(text + source, "  ", "      ", width)
    if leaf.note.published is not None:
        yield from _wrap_text(
            translate(_("published: {value}", value=_format_value(leaf.note.published, "published"))),
            "      ",
            "        ",
            width,
        )
    if leaf.note.reason:
        yield from _wrap_text(
            translate(_("reason: {why}", why=translate(leaf.note.reason))), "      ", "        ", width
        )


def _render_trap(trap: Trap, width: int) -> Iterator[str]:
    where, published = translate(trap.where), translate(trap.published)
    yield from _wrap_text(f"{where}{translate(_(': '))}{published}", "  ", "      ", width)
    yield from _wrap_text(translate(_("here: {instead}", instead=translate(trap.instead))), "      ", "        ", width)
    if trap.reason:
        yield from _wrap_text(translate(_("reason: {why}", why=translate(trap.reason))), "      ", "        ", width)


def _format_value(value: Any, key: str) -> str:
    """Return a value for display; only the texts of some keys are translated, all others are literal values."""
    if isinstance(value, bool):
        return translate(_("yes") if value else _("no"))
    if isinstance(value, float):
        return f"{value:g}"
    render = translate if key.rpartition(".")[2] in _TRANSLATED else str
    if not isinstance(value, (tuple, list)):
        return render(str(value)) or translate(_("(empty)"))
    items = [render(str(item)) for item in value]
    return (translate(_("; ")) if any(" " in str(item) for item in value) else ", ").join(items)


def _wrap_text(text: str, first: str, other: str, width: int) -> list[str]:
    return wrap_text(text, width, first, other) or [first]


def render_json(recipes: Iterable[Recipe], more: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return one JSON document; `notes` holds source, published value and reason by key.  `more` adds fields."""
    found = {"schema": SCHEMA_VERSION, "recipes": [_recipe_values(recipe) for recipe in recipes], **more}
    return json.dumps(found, indent=1, default=str)


def _recipe_values(recipe: Recipe) -> dict[str, Any]:
    return {**dataclasses.asdict(recipe), "custom": not is_ours(recipe)}

"""Find models by name: those of launch/catalogue/models.toml, also by short name (21b, 300b, qwen-7b)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, join
from envcheck.core.toml_file import load_own_part, load_own_table
from launch.catalogue.architecture import Model

FILE = Path(__file__).with_name("models.toml")
REMARKS = ("note", "params_source", "also")  # keys for readers of the file

# Short names of the models of published documents; others are found by name or a part of it.
SHORT_NAMES = {
    "300b": "ernie-4.5-300b-a47b",
    "21b": "ernie-4.5-21b-a3b",
    "0.3b": "ernie-4.5-0.3b",
    "28b": "ernie-4.5-vl-28b-a3b",
    "424b": "ernie-4.5-vl-424b-a47b",
    "qwen-7b": "qwen1.5-7b",
}

MOST_NAMED = 8  # candidates listed for an ambiguous name
LIST_HINT = _("list all models with `envcheck plan --list-models`, or specify a folder with a config.json")


def load_tables() -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of models.toml by model name."""
    return load_own_table(FILE)


@cache
def load_model(name: str) -> Model:
    """Return the model with exactly this name in models.toml."""
    shape = {key: value for key, value in load_tables()[name].items() if key not in REMARKS}
    return load_own_part(Model, FILE, shape, name, name=name)


def find_model(name: str) -> Model:
    """Return a model by full name, hub id, short name, or the only name that contains all its parts.

    Raises UsageError with similar names if none or several match.
    """
    if not name.strip():
        raise UsageError(_("--model is empty"), LIST_HINT)
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower())
    if wanted in load_tables():
        return load_model(wanted)
    if wanted in SHORT_NAMES:
        return load_model(SHORT_NAMES[wanted])
    hits = match_names(wanted)
    if len(hits) == 1:
        return load_model(hits[0])
    problem = (
        _("--model {name} matches several models", name=name[:80])
        if hits
        else _("unknown --model {name}", name=name[:80])
    )
    raise UsageError(problem, suggest_names(wanted, hits))


def suggest_names(wanted: str, hits: list[str]) -> Message:
    """Return the next step for an ambiguous or unknown name: the matches, else similar names."""
    like = suggestions.find_nearest(wanted.rsplit("/", 1)[-1], [*load_tables(), *SHORT_NAMES], limit=3, cutoff=0.5)
    some = hits[:MOST_NAMED] or like
    more = _(" ({count} more)", count=len(hits) - len(some)) if len(hits) > len(some) else NOTHING
    return (
        _("did you mean {some}{more}? {listed}", some=join(", ", some), more=more, listed=LIST_HINT)
        if some
        else LIST_HINT
    )


def list_models() -> list[tuple[str, str, int]]:
    """Return (name, hub id, parameters) of every model, sorted by name."""
    return [(name, load_tables()[name]["hub_id"], round(load_model(name).params)) for name in sorted(load_tables())]


def match_names(wanted: str) -> list[str]:
    """Return the matching names of the first rule that matches any.

    The rules: hub id; name or hub id without variant suffix; the same without separators (llama3.1-8b); contained at
    the start of a word (7b is not in a47b); contained; all parts contained.
    """
    bare = wanted.rsplit("/", 1)[-1]
    joined = remove_separators(bare)
    whole = re.compile(rf"(?<![0-9a-z.]){re.escape(bare)}")
    for rule in (
        lambda n, t: bare in list_hub_names(t),
        lambda n, t: (
            strip_variant_suffix(bare) in map(strip_variant_suffix, list_hub_names(t))
            or strip_variant_suffix(bare) == n
        ),
        lambda n, t: joined in map(remove_separators, (n, *list_hub_names(t))),
        lambda n, t: whole.search(n),
        lambda n, t: bare in n,
        lambda n, t: all(part in n for part in re.split(r"[-/]", bare) if part),
    ):
        hits = [n for n, t in load_tables().items() if rule(n, t)]
        if hits:
            return hits
    return []


def list_hub_names(table: Mapping[str, Any]) -> list[str]:
    """Return the names on the hub, without owners, in lower case: of the model, and of others of the same shape."""
    return [hub_id.rsplit("/", 1)[-1].lower() for hub_id in (table["hub_id"], *table.get("also", ()))]


def strip_variant_suffix(name: str) -> str:
    """Return the name without suffixes for variants of the same dimensions: -chat, -base, -instruct, -pt, -hf ..."""
    return re.sub(r"(-(chat|base|instruct|it|pt|paddle|hf|sft|bf16|thinking)){1,8}$", "", name)


def remove_separators(name: str) -> str:
    """Return the name without variant suffixes, dashes and dots: people write llama3-8b, phi4 and glm4.5."""
    return re.sub(r"[-.]", "", strip_variant_suffix(name))

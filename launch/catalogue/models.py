"""Models by name: launch/catalogue/models.toml, short names (21b, 300b, qwen-7b), and config.json readers elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import own_part, own_table
from launch.catalogue.architecture import Model

FILE = Path(__file__).with_name("models.toml")
REMARKS = ("note", "params_source")  # keys for people

# What people type for the models of the published documents; the rest is found by its own name or a part of it.
SHORT = {
    "300b": "ernie-4.5-300b-a47b",
    "21b": "ernie-4.5-21b-a3b",
    "0.3b": "ernie-4.5-0.3b",
    "28b": "ernie-4.5-vl-28b-a3b",
    "424b": "ernie-4.5-vl-424b-a47b",
    "qwen-7b": "qwen1.5-7b",
}

MOST_NAMED = 8  # of the names that an ambiguous one could be
LISTED = "envcheck plan --list-models names all; or give a folder with a config.json"


def tables() -> Mapping[str, Mapping[str, Any]]:
    """All of models.toml."""
    return own_table(FILE)


@cache
def load(name: str) -> Model:
    """The model of exactly this name in models.toml."""
    shape = {key: value for key, value in tables()[name].items() if key not in REMARKS}
    return own_part(Model, FILE, shape, name, name=name)


def find(name: str) -> Model:
    """A model by full name, hub id, short name or the one name that contains all its parts."""
    if not name.strip():
        raise UsageError("no model is named", LISTED)
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower())
    if wanted in tables():
        return load(wanted)
    if wanted in SHORT:
        return load(SHORT[wanted])
    hits = matches(wanted)
    if len(hits) == 1:
        return load(hits[0])
    said = "could be several models" if hits else "is no model that envcheck knows, and no folder with a config.json"
    raise UsageError(f"--model {name[:80]} {said}", nearest(wanted, hits))


def nearest(wanted: str, hits: list[str]) -> str:
    """The next step for a name that is none: those that it could be, else those that are spelt most like it."""
    import difflib

    like = difflib.get_close_matches(wanted.rsplit("/", 1)[-1][:80], [*tables(), *SHORT], n=3, cutoff=0.5)
    some = hits[:MOST_NAMED] or like
    more = f" ({len(hits) - len(some)} more)" if len(hits) > len(some) else ""
    return f"did you mean {', '.join(some)}{more}? {LISTED}" if some else LISTED


def listed() -> list[tuple[str, str, int]]:
    """(name, hub id, parameters) of every model, by name; short names are in SHORT."""
    return [(name, tables()[name]["hub_id"], round(load(name).params)) for name in sorted(tables())]


def matches(wanted: str) -> list[str]:
    """Names that fit, most literal rule first: hub id, then containment of the whole, where a word begins if it can
    (7b is no a47b), then of every part."""
    bare = wanted.rsplit("/", 1)[-1]
    whole = re.compile(rf"(?<![0-9a-z.]){re.escape(bare)}")
    for rule in (
        lambda n, t: bare == t["hub_id"].rsplit("/", 1)[-1].lower(),
        lambda n, t: stem(bare) == stem(t["hub_id"].rsplit("/", 1)[-1].lower()) or stem(bare) == n,
        lambda n, t: whole.search(n),
        lambda n, t: bare in n,
        lambda n, t: all(part in n for part in re.split(r"[-/]", bare) if part),
    ):
        hits = [n for n, t in tables().items() if rule(n, t)]
        if hits:
            return hits
    return []


def stem(name: str) -> str:
    """The name without what publishers append to one shape: -chat, -base, -instruct, -pt, -paddle, -hf."""
    return re.sub(r"(-(chat|base|instruct|it|pt|paddle|hf|sft|bf16|thinking))+$", "", name)

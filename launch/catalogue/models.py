"""Find models by name: those of launch/catalogue/models.toml, also by short name (21b, 300b)."""

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
}

# Words that name a variant of the same dimensions, and a month or day of release: -2507, -0905, -1124.
_VARIANT = re.compile(r"-(?:chat|base|instruct|it|pt|paddle|hf|sft|bf16|thinking)(?=-|$)")
_DATE = re.compile(r"-(?:2[0-9](?:0[1-9]|1[0-2])|0[1-9]\d\d|1[0-2]\d\d)(?=-|$)")
# How names of quantised checkpoints end → the value of --quant.
QUANTISED = {
    "-awq": "awq-int4", "-awq-int4": "awq-int4", "-gptq": "gptq-int4", "-gptq-int4": "gptq-int4",
    "-gptq-int8": "gptq-int8", "-int4": "int4", "-int8": "int8", "-bnb-4bit": "nf4",
}  # fmt: skip
_BEGINNING = r"(?<![0-9a-z.])"  # of a word in a name
# The version after the family, which people also write without its point: qwen25-7b.
_VERSION = re.compile(r"^([a-z]+-?\d)\.(\d)(?=-|$)")
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
    wanted = re.sub(r"[\s_:]+", "-", name.strip().lower())  # a colon as in Ollama's qwen2.5:7b
    if known := find_exact_name(wanted) or SHORT_NAMES.get(wanted):
        return load_model(known)
    hits = match_words(wanted)
    if len(hits) == 1:
        return load_model(hits[0])
    if quantised := split_quantisation(wanted):
        base, quant = quantised
        raise UsageError(
            _("--model {name} is a quantised version of {base}", name=name[:80], base=base),
            _("use --model {base} --quant {quant}", base=base, quant=quant),
        )
    hits = match_beginnings(wanted) or hits
    problem = (
        _("--model {name} matches several models", name=name[:80])
        if len(hits) > 1
        else _("unknown --model {name}", name=name[:80])
    )
    raise UsageError(problem, suggest_names(wanted, hits))


def find_exact_name(name: str) -> str:
    """Return the catalogue's name of a hub id, a folder or a name, "" if it is of another model.

    What does not change the dimensions is left out: the owner, variants (Mistral-7B-Instruct-v0.3), separators
    (llama3.1-8b), dates (Qwen3-4B-Instruct-2507) and the first part of Meta-Llama.
    """
    bare = name.rstrip("/").rpartition("/")[2].lower().replace("_", "-")
    for each in (bare, _DATE.sub("", bare)):
        if (found := _index_names().get(each) or _index_names().get(join_words(each))) and each:
            return found
    return ""


@cache
def _index_names() -> Mapping[str, str]:
    """The catalogue's name of a model by each of its names, whole, and joined where that is of one model."""
    names = {name: [name, *list_hub_names(table)] for name, table in load_tables().items()}
    joined: dict[str, set[str]] = {}
    for name, known in names.items():
        for each in known:
            for spelling in (each, _VERSION.sub(r"\1\2", each)):
                joined.setdefault(join_words(spelling), set()).add(name)
    whole = {each: name for name, known in names.items() for each in known} | {name: name for name in names}
    return {each: name for each, (name, *others) in joined.items() if not others} | whole


def join_words(name: str) -> str:
    """Return the name without variants and separators, as people write it: llama3.1-8b, phi4, glm4.5.

    Separators between two digits become a point: qwen2-57b is not qwen2.5-7b.
    """
    bare = _VARIANT.sub("", name.removeprefix("meta-"))
    return re.sub(r"((?<=\d)[-.]+(?=\d))|[-.]+", lambda gap: "." if gap[1] else "", bare)


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


def match_words(wanted: str) -> list[str]:
    """Return the models whose name has these words, first in one piece (7b is no word of a47b, llama-3 none of
    llama-3.1); none for a hub id, whose owner has one model of that name."""
    if "/" in wanted:
        return []
    whole = re.compile(rf"{_BEGINNING}{re.escape(wanted)}(?![0-9a-z]|\.\d)")
    words = {word for word in wanted.split("-") if word}
    return [name for name in load_tables() if whole.search(name)] or [
        name for name in load_tables() if words <= {*name.split("-")}
    ]


def match_beginnings(wanted: str) -> list[str]:
    """Return the models with a word that begins so (qwen has qwen2.5-7b); a number is only matched whole."""
    dashed = re.sub(r"(?<=[a-z])(?=\d)", "-?", re.escape(wanted))  # llama3 is llama-3
    begun = re.compile(rf"{_BEGINNING}{dashed}(?!(?<=\d)\.?\d)")
    return [name for name in load_tables() if begun.search(name)]


def split_quantisation(name: str) -> tuple[str, str] | None:
    """Return base model and --quant value of a quantised checkpoint's name, None for any other name."""
    for suffix, quant in QUANTISED.items():
        if name.endswith(suffix) and (base := find_exact_name(name.removesuffix(suffix))):
            return base, quant
    return None


def list_hub_names(table: Mapping[str, Any]) -> list[str]:
    """Return the names on the hub of the model and of others of its shape: without owners, lower case, with dashes."""
    hub_ids = (table["hub_id"], *table.get("also", ()))
    return [hub_id.rsplit("/", 1)[-1].lower().replace("_", "-") for hub_id in hub_ids]

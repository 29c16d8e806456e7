"""A model given by its dimensions: fields of config.json as text, such as `num_layers=32,hidden_size=4096,...`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, verbatim
from launch.catalogue import model_config
from launch.catalogue.architecture import Model
from launch.catalogue.config_file import MODEL_NAMES
from launch.catalogue.model_config import FLAGS, PLAIN_FIELDS, TRAITS

Field: TypeAlias = "int | float | bool | str"
EXAMPLE = "num_layers=32,hidden_size=4096,num_attention_heads=32,intermediate_size=11008,vocab_size=32000"
_FIELD = re.compile(r"([a-z]\w*)=([\w.+-]+)")
_BASIC = frozenset((*MODEL_NAMES["layers"], *MODEL_NAMES["hidden"]))
_WORDS = {"true": True, "false": False}


def has_fields(name: str) -> bool:
    """Return whether the name of a model is a list of fields: one of them is a basic dimension."""
    keys = {part.partition("=")[0].strip() for part in name.split(",") if "=" in part}
    return not keys.isdisjoint(_BASIC)


def render_fields(fields: Mapping[str, Field]) -> str:
    """Return the fields as a model's name."""
    return ",".join(f"{key}={str(value).lower()}" for key, value in fields.items())


def parse_model_fields(name: str, where: str = "--model") -> Model:
    """Return the model of a list of fields; UsageError for an invalid one.  `where` is its place in messages."""
    found = [_FIELD.fullmatch(part) for part in name.split(",")]
    if None in found:
        raise UsageError(_("invalid fields of a model: {text}", text=name[:200]), verbatim(f"--model {EXAMPLE}"))
    pairs = [(match[1], _parse_value(match[2])) for match in found if match is not None]
    _check_keys([key for key, _unused in pairs], where)
    _check_values(dict(pairs), where)
    model = model_config.parse_model(dict(pairs), "", where)
    if model.heads % model.kv_heads:
        words = _("{where}: {heads} heads cannot share {kv_heads} key/value heads", where=where, heads=model.heads,
                  kv_heads=model.kv_heads)  # fmt: skip
        raise UsageError(words, _("specify a divisor of the heads"))
    return replace(model, name=f"{model.layers}x{model.hidden}")


def _check_keys(keys: list[str], where: str) -> None:
    for key in keys:
        if key not in PLAIN_FIELDS:
            raise UsageError(
                _("{where}: unknown field {key}", where=where, key=key[:60]),
                suggestions.suggest(key, PLAIN_FIELDS, _("use fields of config.json: {fields}", fields=EXAMPLE)),
            )
        if keys.count(key) > 1:
            raise UsageError(_("{where}: {key} is given twice", where=where, key=key), _("specify it once"))


def _check_values(fields: Mapping[str, Field], where: str) -> None:
    for key, value in fields.items():
        if key in FLAGS and not isinstance(value, bool):
            raise UsageError(_("{where}: {key} is {value}", where=where, key=key, value=value), verbatim(f"{key}=true"))
        if key not in (*FLAGS, *TRAITS) and (type(value) is not int or value < 1):
            raise UsageError(
                _("{where}: {key} is {value}", where=where, key=key, value=value), _("use a whole number above 0")
            )


def _parse_value(text: str) -> Field:
    if re.fullmatch(r"\d{1,12}", text):
        return int(text)
    return float(text) if re.fullmatch(r"\d{1,12}\.\d{1,12}", text) else _WORDS.get(text, text)

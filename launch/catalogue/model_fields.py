"""A model given by its dimensions: fields of config.json as text, such as `num_layers=32,hidden_size=4096,...`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, verbatim
from launch.catalogue import model_config
from launch.catalogue.architecture import Model

Field: TypeAlias = "int | bool | str"
EXAMPLE = "num_layers=32,hidden_size=4096,num_attention_heads=32,intermediate_size=11008,vocab_size=32000"
_FIELD = re.compile(r"([a-z]\w*)=([\w.+-]+)")
_WORDS = {"true": True, "false": False}


def has_fields(name: str) -> bool:
    """Return whether the name of a model is a list of fields."""
    return _FIELD.match(name) is not None


def render_fields(fields: Mapping[str, Field]) -> str:
    """Return the fields as a model's name."""
    return ",".join(f"{key}={str(value).lower()}" for key, value in fields.items())


def parse_model_fields(name: str) -> Model:
    """Return the model of a list of fields; UsageError for an invalid one."""
    found = [_FIELD.fullmatch(part) for part in name.split(",")]
    if None in found:
        raise UsageError(_("invalid fields of a model: {text}", text=name[:200]), verbatim(f"--model {EXAMPLE}"))
    fields = {match[1]: _parse_value(match[2]) for match in found if match is not None}
    model = model_config.parse_model(fields, "", "--model")
    return replace(model, name=f"{model.layers}x{model.hidden}")


def _parse_value(text: str) -> Field:
    return int(text) if re.fullmatch(r"\d{1,12}", text) else _WORDS.get(text, text)

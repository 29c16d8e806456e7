"""The model of a table row: from its dimensions, a known name, or the nearest known size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from launch.catalogue import model_fields, models
from launch.catalogue.architecture import Mla, Model, Moe

EXPERTS = ("experts", "topk", "expert_ffn", "shared_ffn", "first_dense")
MAX_VALUES = {"layers": 10_000, "hidden": 10**7, "heads": 10**6, "vocab": 10**8, "experts": 10**6, "mtp_layers": 100}
SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")


def parse_count(row: Mapping[str, str], key: str) -> int:
    """Return the column as an integer, 0 if empty; UsageError if it is not a number or too large."""
    text = (row.get(key) or "0").strip()
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_VALUES.get(key, 10**15):
        raise UsageError(
            _("{key} is {value!r}", key=key, value=text),
            _("{key} must be a number from 0 to {most}, or empty", key=key, most=MAX_VALUES.get(key, 10**15)),
        )
    return int(value)


def find_row_model(row: Mapping[str, str]) -> Model:
    """Return the model with the row's dimensions and the catalogue's other properties; else by its fields
    (num_layers=...), else by name, else by size."""
    name = (row.get("model") or "").strip()
    known = models.load_model(name) if name in models.load_tables() else None
    if known and (row.get("mtp_layers") or "").strip():
        known = replace(known, mtp_layers=parse_count(row, "mtp_layers"))
    sizes = {key: parse_count(row, key) for key in SIZES}
    sizes["kv_heads"] = sizes["kv_heads"] or sizes["heads"]
    sizes["head_dim"] = sizes["head_dim"] or sizes["hidden"] // max(1, sizes["heads"])
    if all(sizes.values()):
        if known and row.get("tied"):
            known = replace(known, tied=row["tied"] == "1")
        return replace(known, **sizes) if known else build_described_model(name, row, sizes)  # type: ignore[arg-type]
    if known:
        return known
    if model_fields.has_fields(name):
        return model_fields.parse_model_fields(name)
    try:
        return models.find_model(name)
    except UsageError:
        if total := parse_count(row, "params_total"):
            return scale_nearest_model(total)
        raise


def build_described_model(name: str, row: Mapping[str, str], sizes: Mapping[str, int]) -> Model:
    """Return a model that is not in the catalogue, from the row's columns."""
    kind = row.get("mlp_kind") or ""
    plain, bias = kind.startswith("2-matrix"), kind.endswith("+bias")
    return Model(
        name=name or "custom",
        tied=(row.get("tied") or "") == "1",
        gated=not plain,
        norm="layernorm" if plain else "rmsnorm",
        mlp_bias=bias,
        qkv_bias=bias,
        out_bias=bias,
        moe=parse_mixture(row),
        mla=parse_latent_attention(row.get("mla") or ""),
        mtp_layers=parse_count(row, "mtp_layers"),
        **sizes,  # type: ignore[arg-type]
    )


def parse_mixture(row: Mapping[str, str]) -> Moe | None:
    """Return the experts of the row, None for a dense model."""
    if not parse_count(row, "experts"):
        return None
    experts, active, ffn, shared, dense = (parse_count(row, key) for key in EXPERTS)
    return Moe(experts, active, ffn, shared, dense)


def parse_latent_attention(text: str) -> Mla | None:
    """Return latent attention from text like q1536:kv512:nope128:rope64:v128, None for any other text."""
    parts = {name: int(size) for name, size in re.findall(r"(?<![a-z])([a-z]+)(\d+)", text)}
    if not {"q", "kv", "nope", "rope", "v"} <= parts.keys():
        return None
    return Mla(parts["q"], parts["kv"], parts["nope"], parts["rope"], parts["v"])


def scale_nearest_model(total: int) -> Model:
    """Return the dense model with the nearest parameter count, with its number of layers scaled to `total`."""
    dense = [m for m in map(models.load_model, models.load_tables()) if not m.moe and not m.vision_params]
    like = min(dense, key=lambda m: abs(math.log(m.params / total)))
    outside = like.params - like.trunk.total
    layers = max(1, round((total - outside) / like.layer_params(0).total))
    return replace(like, name=f"{total / 1e9:.1f}e9 parameters, shaped like {like.name}", layers=layers)

"""The model that a row of a table means: its own dimensions, a known name, or the nearest known size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from envcheck.core.errors import UsageError
from launch.catalogue import models
from launch.catalogue.architecture import Mla, Model, Moe

EXPERTS = ("experts", "topk", "expert_ffn", "shared_ffn", "first_dense")
LARGEST = {"layers": 10_000, "hidden": 10**7, "heads": 10**6, "vocab": 10**8, "experts": 10**6}
SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")


def count(row: Mapping[str, str], key: str) -> int:
    """The column as a whole number within what models can have; empty is 0."""
    text = (row.get(key) or "0").strip()
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= LARGEST.get(key, 10**15):
        raise UsageError(f"row {row.get('id', '?')}: {key} is {text!r}", f"{key} is a number, or empty")
    return int(value)


def of_row(row: Mapping[str, str]) -> Model:
    """Dimensions from the row, what they leave open (biases, norms) from the catalogue; else by name, else by size."""
    name = (row.get("model") or "").strip()
    known = models.load(name) if name in models.tables() else None
    sizes = {key: count(row, key) for key in SIZES}
    sizes["kv_heads"] = sizes["kv_heads"] or sizes["heads"]
    sizes["head_dim"] = sizes["head_dim"] or sizes["hidden"] // max(1, sizes["heads"])
    if all(sizes.values()):
        if known and row.get("tied"):
            known = replace(known, tied=row["tied"] == "1")
        return replace(known, **sizes) if known else described(name, row, sizes)  # type: ignore[arg-type]
    if known:
        return known
    try:
        return models.find(name)
    except UsageError:
        if total := count(row, "params_total"):
            return nearest(total)
        raise


def described(name: str, row: Mapping[str, str], sizes: Mapping[str, int]) -> Model:
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
        moe=mixture(row),
        mla=latent(row.get("mla") or ""),
        **sizes,  # type: ignore[arg-type]
    )


def mixture(row: Mapping[str, str]) -> Moe | None:
    if not count(row, "experts"):
        return None
    experts, active, ffn, shared, dense = (count(row, key) for key in EXPERTS)
    return Moe(experts, active, ffn, shared, dense)


def latent(text: str) -> Mla | None:
    """q1536:kv512:nope128:rope64:v128."""
    parts = {name: int(size) for name, size in re.findall(r"([a-z]+)(\d+)", text)}
    if not {"q", "kv", "nope", "rope", "v"} <= parts.keys():
        return None
    return Mla(parts["q"], parts["kv"], parts["nope"], parts["rope"], parts["v"])


def nearest(total: int) -> Model:
    """The known dense model whose parameter count is nearest, its layers scaled to the count."""
    dense = [m for m in map(models.load, models.tables()) if not m.moe and not m.vision_params]
    like = min(dense, key=lambda m: abs(math.log(m.params / total)))
    outside = like.params - like.trunk.total
    layers = max(1, round((total - outside) / like.layer(0).total))
    return replace(like, name=f"{total / 1e9:.1f}e9 parameters, shaped like {like.name}", layers=layers)

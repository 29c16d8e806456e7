"""Parameters of vision towers, with their projection into the language model.

Sources: the vision classes of transformers (Qwen2-VL, Qwen2.5-VL, Qwen3-VL, SigLIP in Gemma 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Size = Callable[[str], int]


@dataclass(frozen=True)
class VisionTower:
    """Properties of a tower: `gated` MLPs; `layernorm` with biases; `patch_bias`; `merger` of patches into the width
    of the language model, or `joined` by one projection; `final_norm` after the last layer."""

    gated: bool = False
    layernorm: bool = True
    patch_bias: bool = False
    merger: bool = True
    final_norm: bool = False
    joined: bool = False


TOWERS = {
    "qwen2_vl": VisionTower(),
    "qwen2_5_vl": VisionTower(gated=True, layernorm=False),
    "qwen3_vl": VisionTower(patch_bias=True),
    "qwen3_vl_moe": VisionTower(patch_bias=True),
    "siglip_vision_model": VisionTower(patch_bias=True, merger=False, final_norm=True, joined=True),
    "dfnrope_vision_transformer": VisionTower(merger=False, final_norm=True),
}


def count_params(size: Size, kind: str, hidden_out: int, deep: int) -> int:
    """Return the parameters of patches, positions, layers and the projection to the language model's width.

    `size` reads a dimension by name, `hidden_out` is the width, `deep` the number of deepstack mergers.
    """
    tower = TOWERS.get(kind, VisionTower(merger=False))
    wide = size("embed") or size("hidden")
    ffn = size("ffn") or 4 * wide
    norm = wide * (2 if tower.layernorm else 1)
    matrices = 3 if tower.gated else 2
    layer = 4 * wide * wide + 4 * wide + matrices * wide * ffn + (matrices - 1) * ffn + wide + 2 * norm
    total = size("layers") * layer + count_patch_params(size, wide, tower.patch_bias) + norm * tower.final_norm
    total += size("position_count") * wide
    if tower.joined:  # one position per patch, a projection and a norm
        return total + (size("image") // max(1, size("patch"))) ** 2 * wide + hidden_out * wide + wide
    if not tower.merger:
        return total
    joined = wide * size("merge") ** 2
    merge = joined * joined + joined + joined * hidden_out + hidden_out
    return total + merge + norm + deep * (merge + 2 * joined)


def count_patch_params(size: Size, wide: int, bias: bool) -> int:
    """Return the parameters of the patch embedding, to width `wide`."""
    pixels = (size("channels") or 3) * size("patch") ** 2 * max(1, size("temporal"))
    return pixels * wide + wide * bias

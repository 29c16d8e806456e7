"""What each training framework does with memory, as data in frameworks.toml.  Code has no branch on a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.toml_file import Given, own_part, own_table

FILE = Path(__file__).with_name("frameworks.toml")


@dataclass(frozen=True)
class Kernels:
    """Bytes kept for the backward pass per element of the named width, by the way in which modules are written.

    `norm_in` of h: a normalisation's input as it is saved; `norm_copy` of h: the normalised copy when its weight is
    trained, `norm_copy_fp32` where the model scales it in fp32; `norm_out` of h: the output, which the matrices behind
    it need for their own gradient.  `mlp_keep` and `mlp_trained` of f: gated MLP, always and when the last matrix is
    trained; `plain_*` the two-matrix form.
    `shared_qkv`: keys and queries are copied out of one fused matrix whose result stays alive through the values.
    `repeat_kv`: keys and values are repeated to the number of heads.  `expert_copies`, `expert_trained` of h for each
    of a token's experts: always, and when experts are trained; `expert_gradient` at once in the backward pass.
    `latent_views`: of latent attention the value is a view of the up-projection's result.
    `frozen_inputs`: a product keeps both operands, whichever of them is trained.  `rotated` of queries and keys: what
    the rotation by position keeps.  `choice` for each of a token's experts: indices and weights of choosing, sorting.
    `mask` of length: a causal mask that every layer is called with where attention is a plain product.
    `score`, `score_gradient` of heads x length: what is kept of the score matrix, and what its backward pass adds.
    """

    norm_in: float
    norm_copy: float
    norm_copy_fp32: float
    norm_out: float
    mlp_keep: float
    mlp_trained: float
    plain_keep: float
    plain_trained: float
    shared_qkv: bool
    repeat_kv: bool
    score: float
    score_gradient: float
    adapter_input: float
    expert_copies: float
    expert_trained: float
    expert_gradient: float
    latent_views: bool
    mask: float
    rotated: float = 0.0
    frozen_inputs: bool = False
    choice: float = 40.0


@dataclass(frozen=True)
class Framework:
    """One framework.  Bytes are per token and vocabulary entry for the losses, per parameter for the states.

    `loss`: unfused loss; `fused`: fused or chunked loss.  `adapter`: weight, gradient and moments of an adapter.
    `adapter_weight`: the part of it that stays when the optimizer's is elsewhere.
    `lift`: bytes of embedding, head and norms under a quantised base.  `step`: temporaries of the optimizer step per
    trained parameter.  `gathered`, `bucket`, `subgroup`: parameters that sharded training holds unsharded, in
    communication buckets (2 bytes), and in fp32 in the optimizer's sub-group.  `units`: FSDP blocks held unsharded.
    `shards_gradients`: stage 2 truly divides gradients.  `reload`: plain optimizer offload brings everything back.
    `growth`, `growth_varying`: cache over tensors of the dynamic part, same lengths each step or varying ones.
    `quants`: quantised bases that it trains adapters on, its own habit first.
    `buffer_gib`: what the framework keeps for itself.  `degrees`, `sharded`: what it offers beside data parallel;
    `accumulates_whole`: its FSDP reduces gradients after the last micro batch alone.  `watches_inputs`: its FSDP is the
    first, whose hooks hold the inputs of frozen units.  `pipelined_shards`: FSDP inside a pipeline, whole between micro
    batches.  `in_place`: gradients overwrite what was kept.  `uneven`: it splits layers that do not divide by the
    stages.  `spread`: how far its summed activations may be off.
    """

    name: Given[str]
    names: tuple[str, ...]
    kernels: Given[Kernels]
    compiled: Given[Kernels]
    selective: Given[Kernels]
    loss: float
    fused: float
    fused_chunk: int
    adapter: float
    adapter_weight: float
    lift: float
    step: float
    weight: float
    gradient: float
    master: float
    gathered: float
    bucket: float
    reduce: float
    saved_module: float
    loss_half: float
    subgroup: float
    units: float
    shards_gradients: bool
    reload: bool
    growth: float
    growth_varying: float
    buffer_gib: float
    expert_buffer_gib: float
    spread: float
    workspace_gib: float
    overlap_gradients: bool
    watches_inputs: bool
    accumulates_whole: bool
    pipelined_shards: bool
    in_place: bool
    loads_whole: bool
    quantised_inputs: bool
    fused_adapters: bool
    fused_step: tuple[str, ...]
    gather_growth: float
    mask_bytes: float
    pair_loss: float
    flash_doubtful: bool
    ddp_copies: float
    half_master: float
    hidden_recompute: bool
    degrees: tuple[str, ...]
    sharded: tuple[str, ...]
    uneven: bool
    quants: tuple[str, ...]
    sources: Mapping[str, str]


def _build(name: str, own: Mapping[str, Any], base: Mapping[str, Any], kernels: Mapping[str, Kernels]) -> Framework:
    merged = {**base, **own}
    styles = {key: kernels[merged.pop(key)] for key in ("kernels", "compiled", "selective")}
    merged.pop("like", None)
    return own_part(Framework, FILE, merged, name, name=name, **styles)


def _kernels(style: Mapping[str, Any], styles: Mapping[str, Any]) -> Kernels:
    """A table of its own, or one that differs from another in a few numbers."""
    merged = {**styles.get(style.get("like", ""), {}), **style}
    merged.pop("like", None)
    return own_part(Kernels, FILE, merged, "kernels")


@cache
def frameworks() -> Mapping[str, Framework]:
    """All of them, in the order of the file: the first whose words fit a text is taken."""
    data = own_table(FILE)
    styles = data["kernels"]
    kernels = {name: _kernels(style, styles) for name, style in styles.items()}
    tables: dict[str, Any] = data["framework"]
    built: dict[str, Framework] = {}
    for name, own in tables.items():
        base = dict(tables["common"])
        if "like" in own:
            base |= tables[own["like"]] | {"names": []}
        built[name] = _build(name, own, base, kernels)
    return built


def find(text: str) -> Framework | None:
    """The framework whose words stand in `text`; None where none does."""
    low = text.lower()
    for framework in frameworks().values():
        if any(word in low for word in framework.names):
            return framework
    return None

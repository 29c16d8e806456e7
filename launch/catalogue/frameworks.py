"""Memory behaviour of the training frameworks, as data in frameworks.toml; no code depends on a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.toml_file import Given, load_own_part, load_own_table

FILE = Path(__file__).with_name("frameworks.toml")
METHODS = ("full", "lora")  # of a planned job


@dataclass(frozen=True)
class Kernels:
    """Bytes kept for the backward pass per element of a width (h hidden, f MLP), depending on how modules are written.

    Norms, per element of h: `norm_in` the saved input; `norm_copy` the normalised copy if the weight is trained,
    `norm_copy_fp32` if the model scales it in fp32; `norm_out` the output, which the next matrices need for their
    gradient.  MLPs, per element of f: `mlp_keep` always, `mlp_trained` if the last matrix is trained; `plain_*` for
    MLPs of two matrices.  `shared_qkv`: queries and keys are copied from one fused result, which the values keep alive.
    `repeat_kv`: keys and values are repeated to the number of heads.  Experts, per element of h and active expert:
    `expert_copies` always, `expert_trained` if experts are trained, `expert_gradient` in the backward pass;
    `experts_again`: they run again in the backward pass, but not their exchange between ranks.
    `latent_views`: the value of latent attention is a view of the up-projection's result.  `frozen_inputs`: a product
    keeps both operands, even if one is frozen.  `rotated`, per element of queries and keys: kept by the rotary
    embedding.  `choice`, per active expert: indices and weights of routing.  `weighted_experts`: experts multiply their
    activation by the router's weight.  `mask`, per length: a causal mask passed to every layer if attention is a plain
    product.  `score`, `score_gradient`, per heads x length: the score matrix, and its backward pass, with
    `score_product`, which only an accelerator makes.  `as_published`: modules as the model's own code writes them
    (`Model.chained_gelu`, `Model.fused_qkv`), not as one kernel.  `by_head`: queries are ordered by head, and so is the
    output of attention.  `adapter_dropout`: each adapter keeps its dropped-out input.
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
    score_product: float
    adapter_input: float
    expert_copies: float
    expert_trained: float
    expert_gradient: float
    latent_views: bool
    mask: float
    rotated: float = 0.0
    frozen_inputs: bool = False
    experts_again: bool = False
    choice: float = 40.0
    weighted_experts: bool = False
    as_published: bool = False
    by_head: bool = False
    adapter_dropout: bool = False


@dataclass(frozen=True)
class Framework:
    """A training framework.  Bytes per token and vocabulary entry for losses, per parameter for states.

    `loss`: unfused loss; `fused`: fused or chunked loss, which holds `fused_head` gradients of the head.
    `adapter`: weight, gradient and moments of an adapter;
    `adapter_weight`: the part that stays with optimizer offload; `half_adapters`: those of a quantised base are cast to
    16 bit.  `lift`: embedding, head and norms of a quantised base
    model.  `step`: temporaries of the optimizer step per trained parameter.  `gathered`, `prefetch`, `bucket`,
    `subgroup`: parameters that sharded training holds unsharded, fetches in advance, in communication buckets (2
    bytes), and in fp32 in the optimizer's sub-group.  `units`: FSDP blocks held unsharded in the backward
    pass; `fully_shard`: methods that use FSDP2, with `reduce_width` bytes in an entry of the reduction; `edge_units`:
    methods for which embedding and head are units of their own, if not all, by an option; `keeps_head`: the head's
    stays gathered from its forward to its backward pass;
    `group_width`: of a sub-group in the step of ZeRO.  `shards_gradients`: stage 2 divides gradients.
    `storage`: Paddle's stages 2 and 3, which have whole tensors and matrices: entries of a rank's buffer; else 0.
    `reload`: plain optimizer offload loads everything back for the step.  `growth`, `growth_varying`: allocator cache
    relative to dynamic tensors, for constant and varying lengths.  `quants`: supported quantised base models, its
    default first.  `buffer_gib`: its own buffers.  `degrees`, `sharded`: supported parallelism and sharding.
    `offloads`: parts that can be moved to the host, and the sharding that each needs.  `adapters`: it trains adapters;
    `is_library`: in a loop that its user writes.  `caches_keys`: the model returns the keys and values of every layer.
    `loss_half`: loss from 16-bit logits, without autocast; `adapter_loss`: `loss` if adapters alone are trained, if
    it differs, else 0. `batches`: micro batches of a step by default. `accumulates_whole`: FSDP reduces gradients
    only after the last micro batch. `casts_shards`: FSDP gathers weights as they are, and autocast casts them.
    `casts_in_fsdp`: divided by tensors or stages without FSDP, a model computes in the type of its weights.
    `adapter_units`: the factors of adapters are units of FSDP. `keeps_weights`: FSDP gathers weights once for the
    forward and the backward pass. `watches_inputs`: it uses the first FSDP, whose hooks keep the inputs of frozen
    units. `pipelined_shards`: FSDP inside a pipeline, unsharded between micro batches.
    `in_place`: gradients overwrite kept activations.  `uneven`: it accepts layers that the stages do not divide.
    `swaps_heads`: context parallelism exchanges heads and tokens around attention (Ulysses).  `keeps_graph`: the graph
    of a step lives until the logits of the next.  `quantised_inputs`: products of a 4-bit matrix keep their input;
    `pins_quantiser`: in each of its releases alike.  `quantised_head`: the head of a quantised base is packed, too.
    `unpacked`: bytes in an entry of a packed matrix in use.  `unties`: head and embedding are two parameters in every
    model.  `predicts_ahead`: it trains multi-token-prediction layers.  `autocast`: it calls the model under autocast,
    also with 16-bit weights.  `kept_logits`: bytes per logit
    that the model's output keeps besides the loss; `computes_loss`: from an fp32 copy of them.  `compiled_loss`,
    `compiled_fused`: bytes of the loss where the model is compiled, if that compiles the loss as well;
    `parallel_loss`: where tensor parallelism divides the vocabulary; else 0.  `prepares`: it calls PEFT's preparation
    of a quantised base itself, or never.
    `sets_allocator`: it starts torch's allocator with expandable segments, in some releases.  `full_precision`: no
    autocast, so it computes in the type of its weights.
    `spread`: relative uncertainty of its total activations.
    """

    name: Given[str]
    names: tuple[str, ...]
    kernels: Given[Kernels]
    compiled: Given[Kernels]
    selective: Given[Kernels]
    loss: float
    fused: float
    fused_chunk: int
    fused_head: float
    adapter: float
    adapter_weight: float
    half_adapters: bool
    lift: float
    step: float
    weight: float
    gradient: float
    master: float
    gathered: float
    prefetch: float
    bucket: float
    reduce: float
    saved_module: float
    loss_half: float
    adapter_loss: float
    subgroup: float
    units: float
    fully_shard: tuple[str, ...]
    reduce_width: float
    edge_units: tuple[str, ...]
    keeps_head: bool
    group_width: float
    shards_gradients: bool
    storage: float
    reload: bool
    growth: float
    growth_varying: float
    buffer_gib: float
    expert_buffer_gib: float
    spread: float
    workspace_gib: float
    overlap_gradients: bool
    watches_inputs: bool
    batches: int
    accumulates_whole: bool
    casts_shards: bool
    casts_in_fsdp: bool
    adapter_units: bool
    keeps_weights: bool
    pipelined_shards: bool
    in_place: bool
    quantised_inputs: bool
    pins_quantiser: bool
    keeps_graph: bool
    quantised_head: bool
    unties: bool
    predicts_ahead: bool
    autocast: bool
    kept_logits: float
    computes_loss: bool
    compiled_loss: float
    compiled_fused: float
    parallel_loss: float
    unpacked: float
    fused_adapters: bool
    fused_step: tuple[str, ...]
    gather_growth: float
    mask_bytes: float
    pair_loss: float
    flash_doubtful: bool
    sets_allocator: bool
    full_precision: bool
    ddp_copies: float
    half_master: float
    hidden_recompute: bool
    degrees: tuple[str, ...]
    sharded: tuple[str, ...]
    offloads: Mapping[str, tuple[str, ...]]
    adapters: bool
    is_library: bool
    caches_keys: bool
    prepares: bool
    uneven: bool
    swaps_heads: bool
    quants: tuple[str, ...]
    sources: Mapping[str, str]


def _merge_tables(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `own`; a source of a number that is replaced goes with it."""
    kept = {key: text for key, text in base.get("sources", {}).items() if key not in own}
    return {**base, **own, "sources": {**kept, **own.get("sources", {})}}


def _build_framework(
    name: str, own: Mapping[str, Any], base: Mapping[str, Any], kernels: Mapping[str, Kernels]
) -> Framework:
    merged = _merge_tables(base, own)
    styles = {key: kernels[merged.pop(key)] for key in ("kernels", "compiled", "selective")}
    merged.pop("like", None)
    return load_own_part(Framework, FILE, merged, name, name=name, **styles)


def _build_kernels(style: Mapping[str, Any], styles: Mapping[str, Any]) -> Kernels:
    """Return a table of kernels, complete or `like` another with some changes."""
    merged = {**styles.get(style.get("like", ""), {}), **style}
    merged.pop("like", None)
    return load_own_part(Kernels, FILE, merged, "kernels")


@cache
def load_frameworks() -> Mapping[str, Framework]:
    """Return all frameworks by name, in the order of the file, in which `find_framework` searches."""
    data = load_own_table(FILE)
    styles = data["kernels"]
    kernels = {name: _build_kernels(style, styles) for name, style in styles.items()}
    tables: dict[str, Any] = data["framework"]
    built: dict[str, Framework] = {}
    for name, own in tables.items():
        base = dict(tables["common"])
        if "like" in own:
            base = _merge_tables(base, tables[own["like"]]) | {"names": []}
        built[name] = _build_framework(name, own, base, kernels)
    return built


def find_framework(text: str) -> Framework | None:
    """Return the first framework one of whose names is in `text`, or None."""
    low = text.lower()
    for framework in load_frameworks().values():
        if any(word in low for word in framework.names):
            return framework
    return None

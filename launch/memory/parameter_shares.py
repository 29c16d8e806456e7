"""Parameters of one card on one pipeline stage.

Tensor parallelism divides attention, MLP, embedding and head by T; norms and router are on every rank.  Experts are
divided by E x Te.  The first stage has the embedding (and vision tower), the last the head: a second copy if tied.
Prediction layers are on the last stage, with a copy of the embedding (Megatron-core, gpt_model.py, mtp_process).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from launch.catalogue.architecture import Model, ParameterCounts
from launch.memory.planned_job import ParallelLayout


@dataclass(frozen=True)
class ParameterShare:
    """Parameters of one card: `dense` and `experts` of its layers, `embedding` and `head`; `dense` includes `norms`."""

    dense: float
    experts: float
    embedding: float
    head: float
    norms: float
    vision: float

    @property
    def total(self) -> float:
        """All parameters of the card."""
        return self.dense + self.experts + self.embedding + self.head + self.vision


def split_layers(layers: int, stages: int, chunks: int = 1) -> tuple[int, ...]:
    """Return the layers of each stage: L/P, the remainder on the first stages.

    Paddle's `uniform` split and MindSpeed's list both put the extra layers first; 54 on 16 stages gives at most 4.
    """
    low, extra = divmod(layers, stages)
    return tuple(low + (1 if stage < extra else 0) for stage in range(stages))


def first_layer(layers: int, stages: int, stage: int) -> int:
    """Return the index of the first layer of a stage, both counted from 0."""
    low, extra = divmod(layers, stages)
    return stage * low + min(stage, extra)


def divide_group(group: ParameterCounts, layout: ParallelLayout) -> tuple[float, float]:
    """Return the (dense, experts) parameters of one card: divided/T + replicated, experts/(E Te)."""
    return group.divided / layout.tp + group.replicated, group.experts / (layout.ep * layout.expert_tp)


def compute_parameter_share(model: Model, layout: ParallelLayout, stage: int) -> ParameterShare:
    """Return the parameters of `model` on one card of pipeline stage `stage`."""
    start = first_layer(model.layers, layout.pp, stage)
    mine = range(start, start + split_layers(model.layers, layout.pp)[stage])
    mixture = sum(model.is_moe_layer(i) for i in mine)
    plain = len(mine) - mixture
    group = ParameterCounts()
    if plain:
        group += model.layer_params(0).multiplied_by(plain)
    if mixture:
        group += model.layer_params(model.layers - 1).multiplied_by(mixture)
    first, last = stage == 0, stage == layout.pp - 1
    if last:
        group += model.final_norm + model.mtp.multiplied_by(model.mtp_layers)
    dense, experts = divide_group(group, layout)
    positions = model.embedding.replicated
    head_here = last and not (model.tied and first)
    embedding_here = first or (last and model.mtp_layers > 0 and not model.tied)
    return ParameterShare(
        dense=dense,
        experts=experts,
        embedding=model.embedding.divided / layout.tp * embedding_here + positions * first,
        head=model.head.divided / layout.tp if head_here else 0.0,
        norms=float(model.norms * model.norm_params * len(mine)),
        vision=float(model.vision_params) if first else 0.0,
    )


def list_layer_matrices(model: Model, layer: int) -> tuple[tuple[int, int], ...]:
    """Return (number, entries of each) of the matrices of a layer, in the order of the model's code."""
    return (*list_attention_matrices(model), *list_mlp_matrices(model, layer))


def list_attention_matrices(model: Model) -> tuple[tuple[int, int], ...]:
    """Return (number, entries of each) of the matrices of a layer's attention."""
    h, a = model.hidden, model.mla
    if a:
        query = model.heads * (a.nope + a.rope)
        compressed = ((1, h * a.q_rank), (1, a.q_rank * query)) if a.q_rank else ((1, h * query),)
        keys = (1, h * (a.kv_rank + a.rope)), (1, a.kv_rank * model.heads * (a.nope + a.value))
        return (*compressed, *keys, (1, model.out_size * h))
    if model.fused_qkv:
        return (1, h * (model.q_size + 2 * model.kv_size)), (1, model.q_size * h)
    return (1, h * model.q_size), (2, h * model.kv_size), (1, model.q_size * h)


def list_mlp_matrices(model: Model, layer: int) -> tuple[tuple[int, int], ...]:
    """Return (number, entries of each) of the matrices of a layer's MLP or of its experts."""
    h, m, matrices = model.hidden, model.moe, 3 if model.gated else 2
    if m is None or not model.is_moe_layer(layer):
        return ((matrices, h * model.ffn),)
    shared = ((matrices, h * m.shared_ffn),) * bool(m.shared_ffn)
    if m.fused_tensors:
        return (1, m.experts * (matrices - 1) * h * m.ffn), (1, m.experts * h * m.ffn), *shared
    return (m.experts * matrices, h * m.ffn), *shared


@lru_cache(maxsize=64)
def list_matrices(model: Model) -> tuple[int, ...]:
    """Return the entries of all matrices of a model, in order."""
    edge = model.vocab * model.hidden
    layers = (pair for layer in range(model.layers) for pair in list_layer_matrices(model, layer))
    inner = (entries for number, entries in layers for _unused in range(number))
    return (edge, *inner, *(() if model.tied else (edge,)))

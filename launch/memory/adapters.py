"""Parameters of low-rank adapters (LoRA, arXiv 2106.09685) on one card.

A matrix in x out gets r (in + out).  With tensor parallelism one factor is not divided: r (in + out/T) if the output is
divided (query, key, value, gate, up), r (in/T + out) if the input is (output projection, down).
"""

from __future__ import annotations

from launch.catalogue.architecture import Model
from launch.memory.parameter_shares import first_layer, split_layers
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob

ATTENTION_IN = {"all-linear": "qkv", "qkv": "qkv", "attn": "qkv", "qv": "qv"}
TARGETS = ("all-linear", "qkv", "qv", "attn", "mlp")


def has_fused_adapters(job: PlannedJob) -> bool:
    """Whether one pair of factors is on a matrix for queries, keys and values, of the framework or of the model."""
    return job.framework.fused_adapters or (job.kernels.as_published and job.model.fused_qkv)


def adapter_weight_bytes(job: PlannedJob) -> float:
    """Return the bytes of an adapter's weight; above 4 bytes, of its fp32 gradient as well.

    DeepSpeed casts fp32 adapters to 16 bit with the model, and has fp32 copies with its optimizer.
    """
    cast = job.framework.adapter_weight == 4.0 and job.sharding.startswith("zero")
    return 2.0 if cast else job.framework.adapter_weight


def share_inputs(job: PlannedJob) -> bool:
    """Whether PEFT's adapters compute in the type of the model, so that modules keep their common input once.

    fp32 adapters under autocast have a 16-bit copy of it for each module.  DeepSpeed casts adapters, FSDP gathers them
    in 16 bit.  On a quantised base dropout is usual (QLoRA, arXiv 2305.14314): its result is a copy for each module.
    """
    in_type = job.sharding == "fsdp" or adapter_weight_bytes(job) == 2.0
    return job.framework.adapter_weight == 4.0 and in_type and not job.quant


def adapter_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the gradient of an adapter's parameter, in the type of its weight; 0 if it has a buffer."""
    width = adapter_weight_bytes(job)
    return width if width <= 4.0 else 0.0


def column_adapter_params(rank: int, width_in: float, width_out: float, t: int) -> float:
    """Return r (in + out/T)."""
    return rank * (width_in + width_out / t)


def row_adapter_params(rank: int, width_in: float, width_out: float, t: int) -> float:
    """Return r (in/T + out)."""
    return rank * (width_in / t + width_out)


def attention_adapter_params(model: Model, adapter: Adapter, t: int, fused: bool = False) -> float:
    """Return the adapter parameters of one layer's attention; `fused`: one pair for the joined q, k, v matrix."""
    r, h, letters = adapter.rank, model.hidden, ATTENTION_IN.get(adapter.targets, "")
    outs = {"q": model.q_size, "k": model.kv_size, "v": model.kv_size}
    if model.mla and letters:
        return _latent_adapter_params(model, r, t)
    if fused and letters == "qkv":
        total = column_adapter_params(r, h, sum(outs.values()), t)
    else:
        total = sum(column_adapter_params(r, h, outs[letter], t) for letter in letters)
    if adapter.targets in ("all-linear", "attn"):
        total += row_adapter_params(r, model.out_size, h, t)
    return total


def _latent_adapter_params(model: Model, r: int, t: int) -> float:
    """Return the adapter parameters of latent attention; the down-projections are not divided."""
    assert model.mla
    m, h = model.mla, model.hidden
    query = model.heads * (m.nope + m.rope)
    total = column_adapter_params(r, m.q_rank or h, query, t) + (r * (h + m.q_rank) if m.q_rank else 0)
    total += r * (h + m.kv_rank + m.rope) + column_adapter_params(r, m.kv_rank, model.heads * (m.nope + m.value), t)
    return total + row_adapter_params(r, model.heads * m.value, h, t)


def mlp_adapter_params(rank: int, hidden: int, ffn: int, gated: bool, t: int, fused: bool = False) -> float:
    """Return the adapter parameters of one MLP or expert; `fused`: one pair for gate and up."""
    if fused and gated:
        return column_adapter_params(rank, hidden, 2 * ffn, t) + row_adapter_params(rank, ffn, hidden, t)
    ups = 2 if gated else 1
    return ups * column_adapter_params(rank, hidden, ffn, t) + row_adapter_params(rank, ffn, hidden, t)


def count_adapter_params(
    model: Model, layout: ParallelLayout, adapter: Adapter, stage: int, fused: bool = False
) -> tuple[float, float]:
    """Return the (dense, expert) adapter parameters of one card on pipeline stage `stage`."""
    r, t = adapter.rank, layout.tp
    start = first_layer(model.layers, layout.pp, stage)
    mine = range(start, start + split_layers(model.layers, layout.pp)[stage])
    mixture = sum(model.is_moe_layer(i) for i in mine)
    dense = len(mine) * attention_adapter_params(model, adapter, t, fused)
    if adapter.targets not in ("all-linear", "mlp"):
        return dense, 0.0
    dense += (len(mine) - mixture) * mlp_adapter_params(r, model.hidden, model.ffn, model.gated, t, fused)
    if not model.moe or not mixture:
        return dense, 0.0
    m = model.moe
    if m.shared_ffn:
        dense += mixture * mlp_adapter_params(r, model.hidden, m.shared_ffn, model.gated, t, fused)
    one = mlp_adapter_params(r, model.hidden, m.ffn, model.gated, layout.expert_tp, fused)
    return dense, mixture * m.experts / layout.ep * one

"""Activations that adapters and a quantised base add to a layer, in bytes per token."""

from __future__ import annotations

from launch.memory.job import PlannedJob
from launch.memory.saved import C, Saved


def attention_adapters(job: PlannedJob) -> Saved:
    """What trained adapters keep: of every module its own copy of the input, in the type that its first factor computes
    in (`adapter_input` bytes), and the 2 r between the factors.  A fused matrix has one pair, hence one copy."""
    m, each, targets = job.model, job.kernels.adapter_input, job.adapter.targets
    if job.trains_all or not job.adapter.rank or targets == "mlp":
        return Saved()
    if m.mla:
        modules = 2 + 2 * bool(m.mla.q_rank)
        whole = each * (2 * m.hidden + m.mla.kv_rank + m.mla.q_rank)
    else:
        modules = 1 if job.kernels.shared_qkv or job.framework.fused_adapters else 2 if targets == "qv" else 3
        whole = each * modules * m.hidden
    out = targets in ("all-linear", "attn")
    return Saved(whole=whole + C * job.adapter.rank * (modules + out), divided=each * m.out_size * out)


def mlp_adapters(job: PlannedJob, moe_layer: bool) -> Saved:
    """The same of the MLP, or of a token's experts."""
    m, each = job.model, job.kernels.adapter_input
    if job.trains_all or not job.adapter.rank or job.adapter.targets not in ("all-linear", "mlp"):
        return Saved()
    ups = 1 if job.kernels.shared_qkv or job.framework.fused_adapters or not m.gated else 2
    moe = m.moe if moe_layer else None
    width = m.ffn if not moe else moe.active * moe.ffn + moe.shared_ffn
    copies = 1 if not moe else moe.active + bool(moe.shared_ffn)
    whole = each * ups * copies * m.hidden + C * job.adapter.rank * (ups + 1) * copies
    return Saved(whole=whole, divided=each * width)


def narrowed(job: PlannedJob, params: float) -> float:
    """16-bit copies, 2 bytes a parameter, with which autocast computes adapters that are kept in fp32 (counted on
    torch)."""
    return C * params * (job.framework.adapter_weight == 4.0)


def adapter_cast(job: PlannedJob, moe_layer: bool) -> Saved:
    """Where a recomputed layer ends with an adapter that is kept in fp32: PEFT's fp32 copy of its input 4 f, the
    product 2 f, and 2 h each of residual, norm's output, result, incoming gradient and that times the adapter's scale;
    none of these is saved.  A norm behind the MLP lets recompute go on: the adapter's product, 2 h more, and, where
    that norm scales in fp32, the incoming gradient once more as such, 4 h (counted on torch)."""
    fp32 = job.framework.adapter_weight == 4.0 and job.adapter.rank and job.recompute.kind in ("full", "block")
    if job.trains_all or not fp32 or job.adapter.targets not in ("all-linear", "mlp"):
        return Saved()
    m = job.model
    width = m.moe.active * m.moe.ffn if m.moe and moe_layer else m.ffn
    on = (C + 4.0 * m.fp32_scale) * (m.norms > 3)
    return Saved(gradient=(C + 4.0) * width + (5 * C + on) * m.hidden)


def quantised_inputs(job: PlannedJob) -> Saved:
    """bitsandbytes' 4-bit product keeps its 16-bit input although the weight is frozen: outputs of the norms, and the
    product in front of the last matrix (litgpt-tables-012 against -011)."""
    if job.trains_all or "nf4" not in job.quant or not job.framework.quantised_inputs:
        return Saved()
    return Saved(whole=C * min(2, job.model.norms) * job.model.hidden, divided=C * job.model.ffn)

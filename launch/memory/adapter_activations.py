"""Activations that adapters and a quantised base add to a layer, in bytes per token."""

from __future__ import annotations

from collections.abc import Callable

from launch.memory import adapters
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C, SavedActivations
from launch.memory.sharding_buffers import mixes_units


def attention_adapters(job: PlannedJob) -> SavedActivations:
    """Return the activations of the adapters on attention.

    Each module keeps a copy of its input in the type of its first factor (`adapter_input` bytes), and 2 r between the
    factors.  A fused matrix has one pair of factors, so one copy.
    """
    m, targets = job.model, job.adapter.targets
    each, output = _input_bytes(job)
    if job.trains_all or not job.adapter.rank or targets == "mlp":
        return SavedActivations()
    if m.mla:
        modules = 2 + 2 * bool(m.mla.q_rank)
        whole = each(2) * m.hidden + each(1) * (m.mla.kv_rank + m.mla.q_rank)
    else:
        modules = 1 if job.kernels.shared_qkv or adapters.has_fused_adapters(job) else 2 if targets == "qv" else 3
        whole = each(modules) * m.hidden
    pairs = len(adapters.ATTENTION_IN[targets]) if job.kernels.shared_qkv and not m.mla else modules
    if pairs == 2 > modules:  # the source of litgpt's index_copy, which fills the results of one matrix in part
        whole += C * (m.q_size + m.kv_size)
    out = targets in ("all-linear", "attn")
    return _split_copies(job, whole, C * job.adapter.rank * (pairs + out), output * m.out_size * out)


def mlp_adapters(job: PlannedJob, moe_layer: bool) -> SavedActivations:
    """Return the activations of the adapters on the MLP, or on the active experts of a token."""
    m, (each, _output) = job.model, _input_bytes(job)
    if job.trains_all or not job.adapter.rank or job.adapter.targets not in ("all-linear", "mlp"):
        return SavedActivations()
    ups = 1 if adapters.has_fused_adapters(job) or not m.gated else 2
    moe = m.moe if moe_layer else None
    width = m.ffn if not moe else moe.active * moe.ffn + moe.shared_ffn
    copies = 1 if not moe else moe.active + bool(moe.shared_ffn)
    inputs = each(ups) * copies * m.hidden
    return _split_copies(job, inputs, C * job.adapter.rank * (ups + 1) * copies, each(1) * width)


def _input_bytes(job: PlannedJob) -> tuple[Callable[[int], float], float]:
    """Return bytes per element: what so many modules keep of a common input, and what the output projection keeps.

    The output of a flash kernel is kept anyway, and in mixed units every input, by the frozen product, unless dropout
    copies it.
    """
    if mixes_units(job) and not job.kernels.adapter_dropout:
        return lambda modules: 0.0, 0.0
    if not adapters.share_inputs(job):
        return lambda modules: job.kernels.adapter_input * modules, job.kernels.adapter_input
    return lambda modules: min(C, job.kernels.adapter_input), 0.0 if job.flash else min(C, job.kernels.adapter_input)


def _split_copies(job: PlannedJob, inputs: float, between: float, divided: float) -> SavedActivations:
    """Return the activations of adapters, whose input is gathered first under sequence parallelism.

    The adapters of Megatron's frameworks keep the gathered input for the gradient of the first factor
    (megatron.core and NeMo, ParallelLinearAdapter).
    """
    gathered = job.splits_sequence and "dist_opt" in job.framework.sharded
    return SavedActivations(whole=between + inputs * (not gathered), fixed=inputs * gathered, divided=divided)


def autocast_copy_bytes(job: PlannedJob, params: float) -> float:
    """Return the bytes of the 16-bit copies that autocast makes of fp32 adapters (counted on torch)."""
    return C * params * (job.framework.adapter_weight == 4.0 and not adapters.share_inputs(job))


def adapter_cast(job: PlannedJob, moe_layer: bool) -> SavedActivations:
    """Return the temporaries at the end of a recomputed layer with fp32 adapters (counted on torch).

    PEFT's fp32 copy of the input 4 f, the product 2 f, and 2 h each for residual, norm output, result, incoming
    gradient, and gradient times the adapter's scale; none of these is saved.  With a norm after the MLP recompute
    continues: 2 h more for the product, and 4 h for an fp32 gradient if that norm scales in fp32.
    """
    fp32 = job.framework.adapter_weight == 4.0 and not adapters.share_inputs(job)
    again = job.recompute.kind in ("full", "block")
    if job.trains_all or not (fp32 and again and job.adapter.rank) or job.adapter.targets not in ("all-linear", "mlp"):
        return SavedActivations()
    m = job.model
    width = m.moe.active * m.moe.ffn if m.moe and moe_layer else m.ffn
    on = (C + 4.0 * m.fp32_scale) * (m.norms > 3)
    return SavedActivations(gradient=(C + 4.0) * width + (5 * C + on) * m.hidden)


def keeps_quantised_inputs(job: PlannedJob) -> bool:
    """Whether bitsandbytes' 4-bit product keeps its 16-bit input although the weight is frozen, as up to 0.43.1."""
    return not job.trains_all and "nf4" in job.quant and job.framework.quantised_inputs


def quantised_inputs(job: PlannedJob) -> SavedActivations:
    """Return the 16-bit inputs that 4-bit products keep beside the other activations.

    These are the outputs of the norms and the input of the last matrix (litgpt-tables-012 compared with -011).
    """
    if not keeps_quantised_inputs(job):
        return SavedActivations()
    return SavedActivations(whole=C * min(2, job.model.norms) * job.model.hidden, divided=C * job.model.ffn)


def previous_step_bytes(job: PlannedJob, layers: int) -> tuple[float, float]:
    """Return what the graph of the last step keeps until this one's logits are there, and their conversion to fp32.

    Inputs of 4-bit products (and so the output of attention), and fp32 logits; of this step 16-bit logits.
    """
    if not (job.framework.keeps_graph and keeps_quantised_inputs(job)) or job.recompute.kind != "none":
        return 0.0, 0.0
    inputs = quantised_inputs(job).kept_bytes + C * job.model.out_size
    return (layers * inputs + (4.0 + C) * job.model.vocab) * job.tokens, 4.0 * job.model.vocab * job.tokens

"""Estimate the time of a step, to rank layouts and to compare changes; the absolute value is rough.

Work: 6 N per token trained (2 forward, 4 backward), 4 N under adapters (no weight gradients), 2 N more recomputed, 2 N
of a reference model, and attention's 6 L a d s (half of 12, causal).  A card reaches EFFICIENCY of its peak.  Bubble:
(P - 1)/(m v) of the work (arXiv 2104.04473).  Volumes: tensor parallel 8 b s h (T - 1)/T bytes a layer and direction
(arXiv 2205.05198), data parallel twice the gradients, ZeRO-3 three times the weights a micro batch (arXiv 1910.02054),
experts four exchanges, stages one activation each way, context parallel keys and values once forward and twice backward
(arXiv 2310.01889).  Traffic uses the machine's own links if its topology is known; tensor ranks are adjacent, then
data, then pipeline ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any

from envcheck.core.messages import _, join
from launch.memory import parameter_shares
from launch.memory.planned_job import PlannedJob, is_assumption_about

SAMPLES = 128  # sequences per step without --grad-accum, the same for all compared variants
EFFICIENCY = 0.4  # of dense 16-bit peak; 0.3 to 0.5 are reported for these models (Megatron-LM, PaLM appendix B)
OVERLAPPED = 0.5  # of data-parallel traffic hidden behind the backward pass
ADAPTED = 0.01  # approximate share of adapters in the parameters; their traffic is negligible
HOST_GBS = 20.0  # GB/s between a card and host memory, PCIe 4 x16 in practice


@dataclass(frozen=True)
class StepTime:
    """Seconds of one optimizer step over the same number of tokens, by cause."""

    compute: float
    bubble: float
    tensor: float
    data: float
    experts: float
    context: float
    stages: float
    offload: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return float(sum(astuple(self)))


def samples_per_step(job: PlannedJob) -> int:
    """Return the sequences per step: those accumulated over all replicas, without --grad-accum SAMPLES."""
    return job.layout.replicas * job.micro_batch * job.grad_accum if job.grad_accum else SAMPLES


def count_micro_batches(job: PlannedJob, samples: int) -> int:
    """Return the micro batches per replica for a step of at least `samples` sequences."""
    return max(1, math.ceil(samples / (job.layout.replicas * job.micro_batch)))


def flops_per_token(job: PlannedJob) -> float:
    """Return the floating-point operations per token, all cards together."""
    m = job.model
    matrices, scores = recomputed_shares(job)
    passes = (6.0 if job.trains_all else 4.0) + (2.0 if job.reference else 0.0)
    heads = m.heads * (m.head_dim if not m.mla else m.mla.nope + m.mla.rope)
    attention = (passes + 2.0 * scores) * m.layers * heads * job.seq_len * (1.0 if job.flash else 1.5)
    return ((passes + 2.0 * matrices) * m.active_params + attention) * (1.3 if job.quant else 1.0)


def recomputed_shares(job: PlannedJob) -> tuple[float, float]:
    """Return the recomputed shares of the forward pass: of all matrices, of the attention scores."""
    layers = parameter_shares.split_layers(job.model.layers, job.layout.pp)[0]
    part = {"full": 1.0, "block": min(1.0, job.recompute.layers / layers)}.get(job.recompute.kind, 0.0)
    return part, 1.0 if job.recompute.kind == "selective" else part


def link_bytes_per_s(job: PlannedJob, ranks: int, apart: int = 1) -> float:
    """Return the bytes per second that a card sends within its group of `ranks` cards, `apart` positions apart.

    Over the machine's own links, else the typical ones of the device; between machines, its share of the network.
    """
    d = job.device
    if ranks * apart > d.cards_per_node:
        return 1e9 * d.net_gbs
    return 1e9 * ((d.links.group_bandwidth_gbs(ranks, apart) or d.net_gbs) if d.links else d.link_gbs)


def estimate_step(job: PlannedJob, samples: int) -> StepTime:
    """Return the time of one step of `samples` sequences."""
    x = job.layout
    count = count_micro_batches(job, samples)
    tokens = count * x.replicas * x.cp * job.tokens
    uneven = parameter_shares.split_layers(job.model.layers, x.pp)[0] * x.pp / job.model.layers
    compute = uneven * flops_per_token(job) * tokens / (x.cards * job.device.tflops * 1e12 * EFFICIENCY)
    return StepTime(
        compute=compute,
        bubble=compute * (x.pp - 1) / (count * x.vpp) * (not x.layer_split),
        tensor=count * tensor_parallel_s(job),
        data=data_parallel_s(job, count),
        experts=count * expert_parallel_s(job),
        context=count * context_parallel_s(job),
        stages=count * pipeline_s(job),
        offload=offload_s(job, count),
    )


def activation_traffic_bytes(job: PlannedJob) -> float:
    """Return the bytes of one activation (b s h in 16 bit) per micro batch, summed over the layers of a stage.

    Includes the recomputed forward pass.
    """
    layers = parameter_shares.split_layers(job.model.layers, job.layout.pp)[0]
    return layers * (1 + recomputed_shares(job)[0] / 2) * job.tokens * job.model.hidden * 2.0


def tensor_parallel_s(job: PlannedJob) -> float:
    """Return the seconds per micro batch for four all-reduces per layer."""
    x = job.layout
    return 8 * activation_traffic_bytes(job) * (x.tp - 1) / x.tp / link_bytes_per_s(job, x.tp) if x.tp > 1 else 0.0


def expert_parallel_s(job: PlannedJob) -> float:
    """Return the seconds per micro batch to send tokens to their experts and back, forward and backward."""
    x, moe = job.layout, job.model.moe
    if not moe or x.ep == 1:
        return 0.0
    parted = x.tp if x.expert_tp < x.tp else 1
    return (
        4
        * activation_traffic_bytes(job)
        * moe.active
        * (x.ep - 1)
        / x.ep
        / parted
        / link_bytes_per_s(job, x.ep, x.expert_tp)
    )


def context_parallel_s(job: PlannedJob) -> float:
    """Return the seconds per micro batch to pass keys and values around the context-parallel ring."""
    x, m = job.layout, job.model
    if x.cp == 1:
        return 0.0
    width = 2 * m.kv_heads * m.head_dim / m.hidden / x.tp
    return 2 * activation_traffic_bytes(job) * width * (x.cp - 1) / link_bytes_per_s(job, x.cp, x.tp)


def pipeline_s(job: PlannedJob) -> float:
    """Return the seconds per micro batch to pass activations and gradients between stages, once per chunk."""
    x = job.layout
    if x.pp == 1:
        return 0.0
    width = job.tokens * job.model.hidden * 2.0 / (x.tp if job.splits_sequence else 1)
    apart = x.cards // x.pp
    return 2 * x.vpp * width / min(link_bytes_per_s(job, 2, apart), link_bytes_per_s(job, x.pp, apart))


def data_parallel_s(job: PlannedJob, count: int) -> float:
    """Return the seconds per step to reduce gradients, and to gather weights per micro batch (ZeRO-3, FSDP)."""
    x = job.layout
    shards = x.dense_shards
    if shards == 1:
        return 0.0
    held = parameter_shares.compute_parameter_share(job.model, x, 0).total
    volume = 2 * 2.0 * (held if job.trains_all else held * ADAPTED)
    if job.sharding in ("zero3", "fsdp"):
        volume += 3 * 2.0 * held * count
    return volume * (shards - 1) / shards * (1 - OVERLAPPED) / link_bytes_per_s(job, shards, x.tp)


def offload_s(job: PlannedJob, count: int) -> float:
    """Return the seconds per step to move fp32 states to the host and back, and parameters per micro batch."""
    held = parameter_shares.compute_parameter_share(job.model, job.layout, 0).total / job.layout.dense_shards
    moved = 24.0 * held * (1 if job.trains_all else ADAPTED) if {"optimizer", "tensorwise"} & job.offload else 0.0
    moved += 6.0 * held * count if "params" in job.offload else 0.0
    return moved / (HOST_GBS * 1e9)


def describe_timing(job: PlannedJob) -> Iterator[str]:
    """Yield the size of the timed step, and the links used."""
    size = samples_per_step(job)
    x = job.layout
    if job.grad_accum:
        yield _(
            "one step: {size} samples of {seq_len} tokens "
            "(--grad-accum {grad_accum} x micro batch {micro_batch} x {replicas} replicas)",
            size=size,
            seq_len=job.seq_len,
            grad_accum=job.grad_accum,
            micro_batch=job.micro_batch,
            replicas=x.replicas,
        )
    else:
        yield _(
            "one step: {size} samples of {seq_len} tokens (change it with --grad-accum)", size=size, seq_len=job.seq_len
        )
    if job.device.links:
        near = [g for g in job.device.links.groups if g.apart == 1]
        links = [_("{ranks} cards {kind} {gbs:.3g} GB/s", ranks=g.ranks, kind=g.kind, gbs=g.gbs) for g in near]
        yield _("links of this machine: {links}", links=join(", ", links))
    yield from (text for text in job.assumed if is_assumption_about(text, "links"))


def list_timing_values(job: PlannedJob) -> dict[str, Any]:
    """Return the step size and links for JSON."""
    known = job.device.links
    return {
        "step_samples": samples_per_step(job),
        "links": [{f.name: getattr(g, f.name) for f in fields(g)} for g in known.groups] if known else None,
    }

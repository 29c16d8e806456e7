"""An estimate of a step's time, to rank layouts and to say what a change costs; not a promise.

Work: 6 N per token trained (2 forward, 4 backward), 4 N under adapters (no weight gradients), 2 N more recomputed, 2 N
of a reference model, and attention's 6 L a d s (half of 12, causal).  A card reaches EFFICIENCY of its peak.  Bubble:
(P - 1)/(m v) of the work (arXiv 2104.04473).  Volumes: tensor parallel 8 b s h (T - 1)/T bytes a layer and direction
(arXiv 2205.05198), data parallel twice the gradients, ZeRO-3 three times the weights a micro batch (arXiv 1910.02054),
experts four exchanges, stages one activation each way, context parallel keys and values once forward and twice backward
(arXiv 2310.01889).  They go over the machine's own links where its topology is known, tensor ranks next to each other,
then data, pipeline last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any

from launch.memory import holdings
from launch.memory.job import PlannedJob

SAMPLES = 128  # sequences of one step where --grad-accum does not say, the same for every variant that is compared
EFFICIENCY = 0.4  # of dense 16-bit peak; 0.3 to 0.5 are reported for these models (Megatron-LM, PaLM appendix B)
OVERLAPPED = 0.5  # of data-parallel traffic hidden behind the backward pass
ADAPTED = 0.01  # adapters' part of the parameters, about; their traffic hardly counts
HOST_GBS = 20.0  # what a card moves to and from host memory, PCIe 4 x16 in practice


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
        return float(sum(astuple(self)))


def samples(job: PlannedJob) -> int:
    """Sequences of one step: what the job accumulates over all its replicas, else SAMPLES."""
    return job.layout.replicas * job.micro_batch * job.grad_accum if job.grad_accum else SAMPLES


def micro_batches(job: PlannedJob, samples: int) -> int:
    """Micro batches of a replica per step when the whole job sees at least `samples` sequences."""
    return max(1, math.ceil(samples / (job.layout.replicas * job.micro_batch)))


def work(job: PlannedJob) -> float:
    """Floating-point operations per token, all cards together."""
    m = job.model
    matrices, scores = recomputed(job)
    passes = (6.0 if job.trains_all else 4.0) + (2.0 if job.reference else 0.0)
    heads = m.heads * (m.head_dim if not m.mla else m.mla.nope + m.mla.rope)
    attention = (passes + 2.0 * scores) * m.layers * heads * job.seq_len * (1.0 if job.flash else 1.5)
    return ((passes + 2.0 * matrices) * m.active_params + attention) * (1.3 if job.quant else 1.0)


def recomputed(job: PlannedJob) -> tuple[float, float]:
    """Parts of the forward pass that are done twice: of all matrices, of attention's scores."""
    layers = holdings.stage_layers(job.model.layers, job.layout.pp)[0]
    part = {"full": 1.0, "block": min(1.0, job.recompute.layers / layers)}.get(job.recompute.kind, 0.0)
    return part, 1.0 if job.recompute.kind == "selective" else part


def link(job: PlannedJob, ranks: int, apart: int = 1) -> float:
    """Bytes a second that a card sends within its group of `ranks` cards, each `apart` from the next.

    Over the machine's own links, the device's usual ones where those are not known, its share of the network beyond."""
    d = job.device
    if ranks * apart > d.cards_per_node:
        return 1e9 * d.net_gbs
    return 1e9 * ((d.links.gbs(ranks, apart) or d.net_gbs) if d.links else d.link_gbs)


def step(job: PlannedJob, samples: int) -> StepTime:
    """The time of one step of `samples` sequences."""
    x = job.layout
    count = micro_batches(job, samples)
    tokens = count * x.replicas * x.cp * job.tokens
    uneven = holdings.stage_layers(job.model.layers, x.pp)[0] * x.pp / job.model.layers
    compute = uneven * work(job) * tokens / (x.cards * job.device.tflops * 1e12 * EFFICIENCY)
    return StepTime(
        compute=compute,
        bubble=compute * (x.pp - 1) / (count * x.vpp) * (not x.layer_split),
        tensor=count * tensor(job),
        data=data(job, count),
        experts=count * experts(job),
        context=count * context(job),
        stages=count * stages(job),
        offload=offload(job, count),
    )


def passed(job: PlannedJob) -> float:
    """Bytes of one activation that a micro batch hands on in each layer of a stage, b s h in 16 bit; those of the
    forward pass once more where it is recomputed."""
    layers = holdings.stage_layers(job.model.layers, job.layout.pp)[0]
    return layers * (1 + recomputed(job)[0] / 2) * job.tokens * job.model.hidden * 2.0


def tensor(job: PlannedJob) -> float:
    """Seconds a micro batch: four all-reduces a layer."""
    x = job.layout
    return 8 * passed(job) * (x.tp - 1) / x.tp / link(job, x.tp) if x.tp > 1 else 0.0


def experts(job: PlannedJob) -> float:
    """Seconds a micro batch: each token to its experts and back, forward and backward."""
    x, moe = job.layout, job.model.moe
    if not moe or x.ep == 1:
        return 0.0
    parted = x.tp if x.expert_tp < x.tp else 1
    return 4 * passed(job) * moe.active * (x.ep - 1) / x.ep / parted / link(job, x.ep, x.expert_tp)


def context(job: PlannedJob) -> float:
    """Seconds a micro batch: keys and values around the ring of context-parallel ranks."""
    x, m = job.layout, job.model
    if x.cp == 1:
        return 0.0
    width = 2 * m.kv_heads * m.head_dim / m.hidden / x.tp
    return 2 * passed(job) * width * (x.cp - 1) / link(job, x.cp, x.tp)


def stages(job: PlannedJob) -> float:
    """Seconds a micro batch: activations on to the next stage and gradients back, once a chunk."""
    x = job.layout
    if x.pp == 1:
        return 0.0
    width = job.tokens * job.model.hidden * 2.0 / (x.tp if job.sequence_parallel else 1)
    apart = x.cards // x.pp
    return 2 * x.vpp * width / min(link(job, 2, apart), link(job, x.pp, apart))


def data(job: PlannedJob, count: int) -> float:
    """Seconds a step: gradients of what is trained, and weights that ZeRO-3 and FSDP gather for every micro batch."""
    x = job.layout
    shards = x.dense_shards
    if shards == 1:
        return 0.0
    held = holdings.holding(job.model, x, 0).total
    volume = 2 * 2.0 * (held if job.trains_all else held * ADAPTED)
    if job.sharding in ("zero3", "fsdp"):
        volume += 3 * 2.0 * held * count
    return volume * (shards - 1) / shards * (1 - OVERLAPPED) / link(job, shards, x.tp)


def offload(job: PlannedJob, count: int) -> float:
    """Seconds a step: fp32 states to the host and back, parameters for every micro batch."""
    held = holdings.holding(job.model, job.layout, 0).total / job.layout.dense_shards
    moved = 24.0 * held * (1 if job.trains_all else ADAPTED) if {"optimizer", "tensorwise"} & job.offload else 0.0
    moved += 6.0 * held * count if "params" in job.offload else 0.0
    return moved / (HOST_GBS * 1e9)


def said(job: PlannedJob) -> Iterator[str]:
    """The step that is meant, and the links that it was timed with."""
    size = samples(job)
    x = job.layout
    of = f"--grad-accum {job.grad_accum} x micro batch {job.micro_batch} x {x.replicas} replicas"
    yield f"a step is {size} samples of {job.seq_len} tokens" + (
        f": {of}" if job.grad_accum else "; --grad-accum says another"
    )
    if job.device.links:
        near = [g for g in job.device.links.groups if g.apart == 1]
        yield "links of this machine: " + ", ".join(f"{g.ranks} cards {g.kind} {g.gbs:.3g} GB/s" for g in near)
    yield from (text for text in job.assumed if text.startswith("links: "))


def document(job: PlannedJob) -> dict[str, Any]:
    """The same for programs."""
    known = job.device.links
    return {
        "step_samples": samples(job),
        "links": [{f.name: getattr(g, f.name) for f in fields(g)} for g in known.groups] if known else None,
    }

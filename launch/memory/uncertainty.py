"""Uncertainty of each term, and from that the bounds between which there is no verdict.

A share is the part of a term that published measurements leave unexplained; fixed amounts are named constants.
"""

from __future__ import annotations

from launch.memory import GIB, meter, offloaded
from launch.memory.phases import Phase
from launch.memory.planned_job import PlannedJob

# Relative uncertainty.  States are counted and were measured within 1 %; quantised ones depend on packing.
SHARES = {
    "weights": 0.01,
    "gradients": 0.01,
    "master weights": 0.01,
    "moments": 0.01,
    "adapters": 0.01,
    "checkpoints": 0.05,
    "recomputed layer": 0.35,
    "layer gradients": 0.35,
    "watched inputs": 0.5,
    "previous step": 0.35,
    "unit gradients": 0.5,
    "logits and loss": 0.20,
    "gathered layers": 0.5,
    "communication buckets": 0.3,
    "fp32 gradient group": 0.3,
    "step temporaries": 0.1,
    "framework buffers": 0.3,
    "unpacked matrix": 0.5,
    "weight copies": 0.05,
    "attention scores": 1.0,
}
STATES = ("weights", "gradients", "master weights", "moments", "adapters")
# Maximum of reserved memory above tensors with ZeRO-3: 8-12 GiB in the flagperf-ds rows, 12 in qwen-readme-045.
ZERO3_FRAGMENTATION_GIB = 12.0
CONTEXT_SHARE = 0.4
# A score matrix may be absent even with flash attention off (swift-bench-036 to -040), but it is hardly larger.
SCORES_UP = 0.2


def uncertainty_share(job: PlannedJob, term: str) -> float:
    """Return the relative uncertainty of a term; that of activations depends on the framework.

    Gathered layers are as certain as weights where FSDP keeps all of them from the forward to the backward pass.
    """
    if term == "activations":
        return job.framework.spread
    return SHARES["weights" if term == "gathered layers" and job.framework.keeps_weights else term]


def context_excess(job: PlannedJob) -> float:
    """Return the bytes by which the context may be larger than counted; collectives are counted in full."""
    return CONTEXT_SHARE * job.device.context_gib * GIB


def context_saving(job: PlannedJob) -> float:
    """Return the bytes by which the context, collectives included, may be smaller than counted."""
    return CONTEXT_SHARE * meter.context_bytes(job)


def lower_bound(job: PlannedJob, phase: Phase) -> float:
    """Return the lower bound of the phase's tensors, bytes."""
    apart = "unit gradients" if "buckets" in job.open_inputs and not job.offload else ""  # only if no bucket takes them
    zero = job.sharding in ("zero1", "zero2")
    return sum(size * (1 - uncertainty_share(job, name)) for name, size in phase.terms if not (zero and name == apart))


def upper_bound(job: PlannedJob, phase: Phase) -> float:
    """Return the upper bound of the phase's tensors, with fragmentation by gathered parameters, bytes."""
    total = sum(
        size * (1 + (SCORES_UP if name == "attention scores" else uncertainty_share(job, name)))
        for name, size in phase.terms
    )
    total += initial_block_bytes(job, phase)
    if job.sharding == "zero3" and not job.expandable:
        total += min(ZERO3_FRAGMENTATION_GIB * GIB, 2.0 * job.model.params)
    return total


def initial_block_bytes(job: PlannedJob, phase: Phase) -> float:
    """Return the bytes that may be left of a block from the initialisation of ZeRO-1 and 2 with a host optimizer.

    DeepSpeed copies a rank's partition of the weights on the card before it moves them (stage_1_and_2.py, __init__).
    Buffers and activations split the freed block, so torch's allocator cannot give it back, and copies of gradients,
    which are made in another stream (overlap_comm), cannot use it.
    """
    if not offloaded.steps_on_host(job) or job.sharding == "zero3" or not job.trains_all or job.expandable:
        return 0.0
    weights = dict(phase.terms)["weights"]
    inside = sum(size for name, size in phase.terms if name not in (*STATES, "unit gradients"))
    return max(0.0, weights / job.layout.dense_shards - inside)


def find_widest_term(job: PlannedJob, phase: Phase) -> str:
    """Return the term with the largest absolute uncertainty."""
    return max(phase.terms, key=lambda term: term[1] * uncertainty_share(job, term[0]))[0]

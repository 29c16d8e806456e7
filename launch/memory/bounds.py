"""How far each term can be off, and from that the band in which a verdict cannot be given.

A share is what the readings of the research note leave unexplained of that term; fixed amounts are named constants.
"""

from __future__ import annotations

from launch.memory import GIB
from launch.memory.job import PlannedJob
from launch.memory.phases import Phase

# Share of the term.  States follow from counts and were read within 1 %; quantised ones depend on packing.
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
    "logits and loss": 0.20,
    "gathered layers": 0.5,
    "communication buckets": 0.3,
    "fp32 gradient group": 0.3,
    "step temporaries": 0.1,
    "framework buffers": 0.3,
    "unpacked matrix": 0.5,
    "attention scores": 1.0,
}
# Reserved memory of ZeRO-3 over the tensors, at most: 8-12 GiB in the flagperf-ds rows, 12 in qwen-readme-045.
ZERO3_FRAGMENTATION_GIB = 12.0
CONTEXT_SHARE = 0.4
# A score matrix may be absent although flash attention was switched off (swift-bench-036 to -040), not be larger.
SCORES_UP = 0.2


def share(job: PlannedJob, term: str) -> float:
    """By how much of itself the term may be off; of activations the framework says so."""
    return job.framework.spread if term == "activations" else SHARES[term]


def low(job: PlannedJob, phase: Phase) -> float:
    """The least that the phase's tensors may take."""
    return sum(size * (1 - share(job, name)) for name, size in phase.terms)


def high(job: PlannedJob, phase: Phase) -> float:
    """The most, fragmentation of gathered parameters included."""
    total = sum(
        size * (1 + (SCORES_UP if name == "attention scores" else share(job, name))) for name, size in phase.terms
    )
    if job.sharding == "zero3" and not job.expandable:
        total += min(ZERO3_FRAGMENTATION_GIB * GIB, 2.0 * job.model.params)
    return total


def widest(job: PlannedJob, phase: Phase) -> str:
    """The term that leaves most open."""
    return max(phase.terms, key=lambda term: term[1] * share(job, term[0]))[0]

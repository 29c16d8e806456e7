"""The peak is a maximum over phases and stages: what each phase holds on each stage.

load → forward and loss → backward → optimizer step → save.  A job that fits while computing can die in the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from launch.memory import GIB, meter
from launch.memory.job import PlannedJob
from launch.memory.parts import Parts, parts
from launch.memory.states import States

PHASES = ("load", "forward and loss", "backward", "optimizer step", "save")


@dataclass(frozen=True)
class Phase:
    """Bytes of one card in one phase of one stage, by term."""

    name: str
    stage: int
    terms: tuple[tuple[str, float], ...]

    @property
    def total(self) -> float:
        return sum(size for _, size in self.terms)


def resident(job: PlannedJob, kept: States, stepping: bool) -> States:
    """What of the states is on the card.

    Plain offload takes the optimizer's away, and where the framework reloads brings all back for the step; tensor-wise
    or swapping offload streams it.  DeepSpeed's also lets gradients leave through a bucket (ZeRO-Offload), and
    parameter offload leaves neither weights nor gradients.
    """
    away = set(job.offload)
    gone = 1.0 if "tensorwise" in away else 0.0
    if "optimizer" in away and not (stepping and job.framework.reload):
        gone = job.offload_share
    if "params" in away:
        kept = replace(kept, weights=0.0, adapters=0.0, gradients=0.0)
    if "optimizer" in away and job.sharding in ("zero2", "zero3") and not job.framework.reload:
        kept = replace(kept, gradients=0.0)
    here = 1 - gone
    return replace(
        kept, master=kept.master * here, moments=kept.moments * here, adapter_steps=kept.adapter_steps * here
    )


def compute_states(job: PlannedJob, p: Parts) -> States:
    """Outside the step; before the first one there are no moments yet."""
    kept = resident(job, p.states, stepping=False)
    return replace(kept, moments=0.0, adapter_steps=0.0) if job.first_iteration else kept


def phases(job: PlannedJob, stage: int) -> tuple[Phase, ...]:
    """The phases of one stage, in order."""
    p = parts(job, stage)
    now, step = compute_states(job, p), resident(job, p.states, stepping=True)
    constant = (
        ("framework buffers", buffers(job)),
        ("communication buckets", p.buckets),
    )
    early = comes_and_goes(job)
    fused_step = any(word in job.optimizer for word in job.framework.fused_step) and job.trains_all
    if fused_step:
        largest = job.model.head.total * job.precision.gradient / job.layout.tp
        now, step = replace(now, gradients=largest), replace(step, gradients=largest)
    forward = replace(now, gradients=0.0) if early and not fused_step else now
    running = (*constant, ("gathered layers", p.gathered), ("unpacked matrix", p.unpacked))
    late = () if early and not fused_step else p.kept
    return (
        Phase(PHASES[0], stage, (*state_terms(load(job, p)), *constant)),
        Phase(PHASES[1], stage, (*state_terms(forward), *running, *p.kept, ("logits and loss", p.loss))),
        Phase(
            PHASES[2],
            stage,
            (
                *state_terms(now),
                *running,
                *late,
                ("recomputed layer", p.working),
                ("layer gradients", p.gradient),
                ("watched inputs", p.watched),
            ),
        ),
        Phase(
            PHASES[3],
            stage,
            (
                *state_terms(step),
                *constant,
                ("step temporaries", temporaries(job, p)),
                ("fp32 gradient group", p.subgroup),
            ),
        ),
        Phase(PHASES[4], stage, (*state_terms(after(job, p, now)), *constant, ("gathered layers", p.saving))),
    )


def comes_and_goes(job: PlannedJob) -> bool:
    """Whether gradients are not there in the forward pass: set to None after the step, one micro batch each.  ZeRO
    keeps its own partitions in one flat buffer."""
    plain = job.framework.overlap_gradients and not job.sharding.startswith("zero")
    return plain and (job.grad_accum or 1) == 1 and job.trains_all


def after(job: PlannedJob, p: Parts, now: States) -> States:
    """What stands while a checkpoint is written: offloaded states are away again and the first step's moments exist;
    gradients were set to None where they come and go, and stay where they have a buffer of their own."""
    kept = resident(job, p.states, stepping=False)
    return replace(kept, gradients=0.0 if job.framework.overlap_gradients else now.gradients)


def temporaries(job: PlannedJob, p: Parts) -> float:
    """An unfused optimizer's scratch, a share of the moments; DeepSpeed and Paddle bring fused ones."""
    if job.sharding.startswith("zero") or "optimizer" in job.offload or "tensorwise" in job.offload:
        return 0.0
    return job.framework.step * (p.states.moments if job.trains_all else p.scratch)


def loader(job: PlannedJob) -> float:
    """b s^2 bytes of attention mask for each chunk of the pipeline."""
    return job.framework.mask_bytes * job.layout.vpp * job.seq_len * job.seq_len * job.micro_batch


def buffers(job: PlannedJob) -> float:
    """What the framework keeps for itself, more with experts, and what its loader and chunks hold."""
    f = job.framework
    return (f.buffer_gib + f.expert_buffer_gib * (job.model.moe is not None)) * GIB + loader(job)


def standing(job: PlannedJob, p: Parts) -> float:
    """What is on the card after an optimizer step: states as they then are, buffers, masks of the data loader."""
    return resident(job, p.states, stepping=True).total + loader(job) + meter.workspace(job)


def load(job: PlannedJob, p: Parts) -> States:
    """Shards of the checkpoint, or the whole model on every card where it is loaded before sharding; then adapters."""
    if job.framework.loads_whole and job.sharding == "fsdp":
        return States(weights=2.0 * job.model.params)
    kept = resident(job, p.states, stepping=False)
    return States(weights=kept.weights, adapters=kept.adapters)


def state_terms(kept: States) -> tuple[tuple[str, float], ...]:
    return (
        ("weights", kept.weights),
        ("gradients", kept.gradients),
        ("master weights", kept.master),
        ("moments", kept.moments),
        ("adapters", kept.adapters + kept.adapter_steps),
    )


def read(job: PlannedJob, phase: Phase) -> Phase:
    """The phase as the job's meter shows it."""
    coming = sum(size for name, size in phase.terms if name in COMING)
    kept = sum(size for name, size in phase.terms if name in ("activations", "checkpoints"))
    uneven = ("logits and loss",) if job.flash else UNEVEN
    varying = sum(size for name, size in phase.terms if name in uneven)
    extra = meter.reading(job, phase.total - coming, coming, kept, varying)
    return Phase(phase.name, phase.stage, (*phase.terms, *extra.items()))


# What is allocated and freed within a step, in sizes that change: the part that the allocator's cache outgrows.
COMING = (
    "activations",
    "attention scores",
    "checkpoints",
    "logits and loss",
    "recomputed layer",
    "layer gradients",
    "watched inputs",
    "gathered layers",
    "unpacked matrix",
)
# Of that, the blocks whose size follows the length most: the loss, and score matrices with the layer that holds them.
UNEVEN = ("logits and loss", "attention scores", "recomputed layer", "layer gradients")

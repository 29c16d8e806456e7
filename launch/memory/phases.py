"""Memory of each phase of a training on each pipeline stage; the peak is the maximum over phases and stages.

load → forward and loss → backward → optimizer step → save.  A job that fits in forward and backward can still run out
of memory in the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from envcheck.core.messages import mark
from launch.memory import GIB, group_sharded, meter, offloaded, sharding_buffers
from launch.memory.planned_job import PlannedJob
from launch.memory.stage_parts import StageParts, build_stage_parts
from launch.memory.states import ModelStates, steps_by_lists, steps_in_backward

PHASES = (mark("load"), mark("forward and loss"), mark("backward"), mark("optimizer step"), mark("save"))


@dataclass(frozen=True)
class Phase:
    """Bytes of one card in one phase of one stage, by term; `pooled`: freed blocks that only other streams can take."""

    name: str
    stage: int
    terms: tuple[tuple[str, float], ...]
    pooled: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all terms, bytes."""
        return sum(size for _unused, size in self.terms)


def resident_states(job: PlannedJob, kept: ModelStates, stepping: bool) -> ModelStates:
    """Return the states that are on the card; `stepping`: during the optimizer step.

    Plain offload moves the optimizer states to the host; frameworks that reload bring all back for the step.  Tensor-
    wise offload streams them.  DeepSpeed also moves gradients through a bucket (ZeRO-Offload).  Parameter
    offload leaves neither weights nor gradients on the card.
    """
    away = set(job.offload)
    gone = 1.0 if "tensorwise" in away else 0.0
    if "optimizer" in away and not (stepping and job.framework.reload):
        gone = job.offload_share
    if "params" in away:
        gone = 1.0 if job.sharding == "fsdp" else gone  # CPUOffload: the optimizer steps on the host
        kept = replace(kept, weights=0.0, adapters=0.0, gradients=0.0)
    whole = job.sharding == "zero1" and not takes_one_batch(job)
    if "optimizer" in away and job.sharding.startswith("zero") and not whole and not job.framework.reload:
        kept = replace(kept, gradients=0.0)
    here = 1 - gone
    return replace(
        kept, master=kept.master * here, moments=kept.moments * here, adapter_steps=kept.adapter_steps * here
    )


def compute_states(job: PlannedJob, p: StageParts) -> ModelStates:
    """Return the states outside the optimizer step; before the first one there are no moments."""
    kept = resident_states(job, p.states, stepping=False)
    return replace(kept, moments=0.0, adapter_steps=0.0) if job.first_iteration else kept


def list_phases(job: PlannedJob, stage: int) -> tuple[Phase, ...]:
    """Return the phases of one stage, in order."""
    p = build_stage_parts(job, stage)
    now, step = compute_states(job, p), resident_states(job, p.states, stepping=True)
    own = (mark("framework buffers"), framework_buffer_bytes(job) + p.pinned)
    cached = p.flattened * (job.meter != "allocated")
    constant = (own, (mark("communication buckets"), p.buckets * lasting_buckets(job) + cached))
    between = (own, (mark("communication buckets"), p.buckets * buckets_between_batches(job) + cached))
    # DeepSpeed's exist from its initialisation on, which comes after loading.
    loading = constant if job.sharding == "none" else ((own[0], own[1] - p.pinned),)
    fused_step = steps_in_backward(job.optimizer, job.framework.fused_step) and job.trains_all
    if fused_step:
        now, step = (replace(states, gradients=largest_gradient_bytes(job)) for states in (now, step))
    if job.sharding == "zero1" and job.trains_all and not takes_one_batch(job):
        own_partition = step.gradients / job.layout.dense_shards
        step = replace(step, gradients=0.0 if offloaded.steps_on_host(job) else own_partition)
    whole = p.accumulated > 0
    early = (frees_gradients(job) and not fused_step) or whole
    fewer = 0.0 if offloaded.steps_on_host(job) else p.adapter_gradients
    forward = replace(now, gradients=0.0, adapter_steps=max(0.0, now.adapter_steps - fewer)) if early else now
    phases = (
        Phase(PHASES[0], stage, (*state_terms(loading_states(job, p)), *loading)),
        Phase(PHASES[1], stage, (*state_terms(forward), *between, *forward_terms(p))),
        Phase(PHASES[2], stage, backward_terms(job, p, (forward, now))),
        Phase(
            PHASES[3],
            stage,
            (
                *state_terms(step),
                *constant,
                (mark("step temporaries"), optimizer_scratch_bytes(job, p)),
                (mark("fp32 gradient group"), p.subgroup),
                ("checkpoints", p.retained),
                (mark("logits and loss"), p.output),
            ),
        ),
        Phase(
            PHASES[4],
            stage,
            (*state_terms(states_while_saving(job, p, now)), *loading, (mark("gathered layers"), p.saving)),
        ),
    )
    pooled = [replace(phase, pooled=pooled_bytes(job, p, phase, now.gradients)) for phase in phases[1:]]
    if sharding_buffers.prefetches_units(job):
        # A stream's pool may be largest in a moment that does not have the most tensors.
        moment = backward_terms(job, p, (forward, now), apart=("gathered layers", "gradients"))
        other = replace(phases[2], terms=moment)
        most = other.total + pooled_bytes(job, p, other, now.gradients) - phases[2].total
        pooled[1] = replace(phases[2], pooled=max(pooled[1].pooled, most))
    return (phases[0], *pooled)


def pooled_bytes(job: PlannedJob, p: StageParts, phase: Phase, gradients: float) -> float:
    """Return the bytes that torch's allocator keeps for FSDP's streams, beyond what the phase has of theirs.

    The allocator has a pool for each stream.  A card's gradients are made in the stream of the reduction, so their
    blocks wait for the next backward pass.  FSDP1 gathers in a stream of its own, so the blocks of its weights wait
    as well; FSDP2 copies them out of a buffer of that stream (torch/distributed/fsdp/_runtime_utils.py, _unshard and
    _reduce_grad; _fully_shard/_fsdp_collectives.py, foreach_all_gather and foreach_reduce).
    """
    if job.sharding != "fsdp":
        return 0.0
    sizes = dict(phase.terms)
    gathered = sizes.get("gathered layers", 0.0)
    copies = p.shard_copy
    if sharding_buffers.is_fully_sharded(job):
        held = {PHASES[1]: p.buffer_forward, PHASES[2]: p.buffer_backward}.get(phase.name, 0.0)
        waiting = p.buffer_pool - held
    else:
        whole = p.accumulated * (gathered > p.accumulated)  # not at the last reduction
        waiting = p.gathered - p.accumulated - (gathered - whole)
        copies += p.shard_copy * (gradients > 0)
    # Gradients of adapters are among their states, which the forward pass of a single micro batch does not have.
    few = p.adapter_gradients * (not job.trains_all and takes_one_batch(job) and phase.name in PHASES[1:3])
    return copies + few + max(0.0, waiting) + max(0.0, gradients - sizes.get("gradients", 0.0))


def lasting_buckets(job: PlannedJob) -> float:
    """Return the share of the buckets outside the backward pass.

    ZeRO-1 and 2 release both with the last gradient.  The allocator keeps these blocks, which are larger than most
    tensors.
    """
    if job.meter != "allocated":
        return 1.0
    return {"zero1": 0.0, "zero2": 0.0}.get(job.sharding, 1.0)


def buckets_between_batches(job: PlannedJob) -> float:
    """Return the share of the buckets in the forward pass: ZeRO-1 keeps them until the last micro batch.

    Paddle's stage 2 makes its own when the forward pass begins.
    """
    lasts = job.sharding == "zero1" and not takes_one_batch(job)
    return 1.0 if lasts or group_sharded.stores_gradients(job) else lasting_buckets(job)


Terms = tuple[tuple[str, float], ...]


def find_larger(*moments: Terms, apart: tuple[str, ...] = ()) -> Terms:
    """Return the terms of the moment with the largest sum, of all terms but those `apart`."""
    return max(moments, key=lambda terms: sum(size for name, size in terms if name not in apart))


def forward_terms(p: StageParts) -> Terms:
    """Return what the forward pass holds when the last layer begins or ends, at the head, or at the loss.

    At the loss only the root unit is unsharded.  A head that is unpacked is so again when the backward pass begins.
    Logits that a loop keeps live until the next ones, with their graph; no head is unpacked when these are converted.
    """
    unpacked, head = (mark("unpacked matrix"), p.unpacked), (mark("unpacked matrix"), max(p.unpacked, p.unpacked_head))
    copies, earlier = (mark("weight copies"), p.copies), (mark("logits and loss"), p.output)
    gathered, last = (mark("gathered layers"), p.gathered_loss), mark("previous step")
    return find_larger(
        ((mark("gathered layers"), p.gathered_start),),
        ((mark("gathered layers"), p.gathered_first), unpacked, copies, earlier, *without_layer(p)),
        (
            *((mark("gathered layers"), p.gathered_last), unpacked, copies, earlier),
            *(*p.kept, (mark("recomputed layer"), p.passing)),
        ),
        (gathered, head, copies, *p.kept, (last, p.previous[0])),
        (gathered, copies, *p.kept, (last, sum(p.previous))),
        (gathered, head, copies, *p.kept, (mark("logits and loss"), p.loss)),
    )


def without_layer(p: StageParts) -> Terms:
    """Return the kept activations without those of one layer."""
    return tuple((name, size - p.layer_kept * (name == "activations")) for name, size in p.kept)


def backward_terms(
    job: PlannedJob, p: StageParts, states: tuple[ModelStates, ModelStates], apart: tuple[str, ...] = ()
) -> Terms:
    """Return what the backward pass holds at its start, or when the first or last units are reduced: the largest.

    `states` are those of the forward pass and those with gradients.  Activations are freed while gradients come: at the
    start all activations and the old gradients, at the end all gradients and the activations of a layer.  FSDP1
    flattens the gradients of a unit when its layer is done, FSDP2 holds the input of a reduction until the next.  FSDP1
    prefetches the last block when the backward pass of the loss begins, and one unit with each unit: with adapters in
    units of their own, the next block when only the first norm of a layer is left.  FSDP2 reduces a head with a unit of
    its own first.  ZeRO-1 and 2 make the buffer for all gradients of a partition with the first bucket.  The gradients
    of head and embedding come first and last, in full.
    """
    forward, now = states
    held = (
        (mark("framework buffers"), framework_buffer_bytes(job) + p.pinned),
        (mark("unpacked matrix"), p.unpacked),
        (mark("watched inputs"), p.watched),
        (mark("logits and loss"), p.output),
    )
    layer = ((mark("recomputed layer"), p.working), (mark("layer gradients"), p.gradient))
    at_start = p.buckets + p.flattened * (job.meter != "allocated")
    copies, moved = (mark("weight copies"), p.copies_backward), (mark("unit gradients"), p.moved)
    working = (mark("gathered layers"), p.gathered_layer)
    start = (*state_terms(forward), *held, working, copies, (mark("communication buckets"), at_start), *p.kept, *layer)
    late = replace(now, gradients=max(0.0, now.gradients - p.unreduced))
    kept = p.kept if group_sharded.gathers_matrices(job) else without_layer(p)
    first: tuple[ModelStates, Terms] = forward, (*kept, (copies[0], p.copies_rest))
    last: tuple[ModelStates, Terms] = late, (("activations", p.layer_kept), ("checkpoints", p.layer_checkpoint))
    reduced, lasting = (forward, now), moved
    # At the last blocks SHARD_GRAD_OP has released the weights of the others.
    moments: tuple[tuple[ModelStates, Terms, float], ...] = ((*first, 0.0),)
    if not p.accumulated:
        moments += ((*last, p.released),)
    if job.sharding in ("zero1", "zero2"):
        unfinished = tuple((name, size * p.unfinished) for name, size in p.kept)
        made = replace(now, gradients=forward.gradients + p.partition)
        reduced, moved = (made, made), (moved[0], 0.0)
        done = (("checkpoints", p.layer_checkpoint), (moved[0], lasting[1] + p.waiting + p.undivided))
        moments = (
            (*first, 0.0),
            (made, (*unfinished, (moved[0], lasting[1] + p.waiting)), 0.0),
            (made, done, 0.0),
        )
    reductions = (
        (*state_terms(kept), *held, (mark("communication buckets"), p.buckets + p.flattened), *activations, *moment)
        for kept, activations, released in moments
        for moment in (
            (
                (mark("gathered layers"), p.gathered_layer - released),
                *layer,
                (mark("unit gradients"), p.unit_gradients - p.flat_gradient),
            ),
            (
                (mark("gathered layers"), p.gathered - released),
                (mark("layer gradients"), p.first_norm),
                (mark("unit gradients"), p.unit_gradients + p.flat_gradient),
                moved,
            ),
        )
    )
    loss = (*held[:1], (mark("gathered layers"), p.gathered_first), (mark("logits and loss"), p.loss))
    at_loss = ((*state_terms(forward), *loss, *p.kept),) if sharding_buffers.prefetches_units(job) else ()
    fewer = replace(now, gradients=now.gradients - p.last_reduction.absent)
    edges = (
        (*state_terms(kept), *held, (mark("communication buckets"), p.buckets), *activations, (lasting[0], gradients))
        for gradients, kept, activations in (
            (p.head_reduction, forward, p.kept),
            (p.last_reduction.gradients, fewer, ((working[0], p.last_reduction.gathered),)),
            (p.first_gradient, reduced[0], p.kept),
            (p.last_gradient, reduced[1], ()),
        )
        if gradients
    )
    return find_larger(start, *reductions, *at_loss, *edges, apart=apart)


def takes_one_batch(job: PlannedJob) -> bool:
    """Whether a step has one micro batch."""
    return job.batches == 1


def frees_gradients(job: PlannedJob) -> bool:
    """Whether there are no gradients in the forward pass: one micro batch per step, and set to None after it.

    ZeRO-3 keeps its partitions in a flat buffer; those of ZeRO-1 and 2 go with the step (averaged_gradients), as do
    those of Paddle's stage 3 (_clear_gradients).
    """
    plain = job.framework.overlap_gradients and job.sharding != "zero3"
    return (plain or group_sharded.gathers_matrices(job)) and takes_one_batch(job)


def states_while_saving(job: PlannedJob, p: StageParts, now: ModelStates) -> ModelStates:
    """Return the states while a checkpoint is written.

    Offloaded states are on the host again, the moments of the first step exist; gradients stay if they have a buffer.
    """
    kept = resident_states(job, p.states, stepping=False)
    return replace(kept, gradients=0.0 if job.framework.overlap_gradients else now.gradients)


def optimizer_scratch_bytes(job: PlannedJob, p: StageParts) -> float:
    """Return the temporary bytes of an optimizer over lists, a share of the moments; 0 for DeepSpeed and offload.

    transformers' Adafactor goes tensor by tensor (transformers/optimization.py, Adafactor.step): it makes at most three
    tensors of the size of an fp32 one, and four in fp32 of a 16-bit one, whose weight and gradient it copies (counted).
    """
    away = "optimizer" in job.offload or "tensorwise" in job.offload
    if job.sharding.startswith("zero") or away:
        return 0.0
    if "adafactor" in job.optimizer.lower() and job.trains_all and job.sharding == "none":
        return (16.0 if job.precision.weight < 4.0 else 12.0) * job.model.largest_tensor / job.layout.tp
    if not steps_by_lists(job.optimizer):
        return 0.0
    return job.framework.step * (p.states.moments if job.trains_all else p.scratch)


def attention_mask_bytes(job: PlannedJob) -> float:
    """Return the bytes of the data loader's attention masks: b s^2 per chunk of the pipeline."""
    return job.framework.mask_bytes * job.layout.vpp * job.seq_len * job.seq_len * job.micro_batch


def framework_buffer_bytes(job: PlannedJob) -> float:
    """Return the bytes of the framework's own buffers, more with experts, and of attention masks."""
    f = job.framework
    return (f.buffer_gib + f.expert_buffer_gib * (job.model.moe is not None)) * GIB + attention_mask_bytes(job)


def bytes_after_step(job: PlannedJob, p: StageParts) -> float:
    """Return the bytes on the card after an optimizer step: states, attention masks, workspace."""
    kept = resident_states(job, p.states, stepping=True)
    if steps_in_backward(job.optimizer, job.framework.fused_step) and job.trains_all:
        kept = replace(kept, gradients=largest_gradient_bytes(job))
    return kept.total + attention_mask_bytes(job) + meter.workspace_bytes(job)


def largest_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the largest gradient, the head's: all there is where the backward pass steps."""
    return job.model.head.total * job.precision.gradient / job.layout.tp


def loading_states(job: PlannedJob, p: StageParts) -> ModelStates:
    """Return the states after loading: shards and adapters."""
    kept = resident_states(job, p.states, stepping=False)
    return ModelStates(weights=kept.weights, adapters=kept.adapters)


def state_terms(kept: ModelStates) -> tuple[tuple[str, float], ...]:
    """Return the states as (term, bytes)."""
    return (
        ("weights", kept.weights),
        ("gradients", kept.gradients),
        (mark("master weights"), kept.master),
        ("moments", kept.moments),
        ("adapters", kept.adapters + kept.adapter_steps),
    )


def apply_meter(job: PlannedJob, phase: Phase) -> Phase:
    """Return the phase as the job's meter reads it."""
    coming = sum(size for name, size in phase.terms if name in COMING)
    kept = sum(size for name, size in phase.terms if name in ("activations", "checkpoints"))
    uneven = (mark("logits and loss"),) if job.flash else UNEVEN
    varying = sum(size for name, size in phase.terms if name in uneven)
    extra = meter.list_meter_terms(job, phase.total - coming, coming, kept, varying, phase.pooled)
    return replace(phase, terms=(*phase.terms, *extra.items()))


# Terms that are allocated and freed within a step, in varying sizes: they cause allocator cache.
COMING = (
    "activations",
    mark("attention scores"),
    "checkpoints",
    mark("logits and loss"),
    mark("recomputed layer"),
    mark("layer gradients"),
    mark("watched inputs"),
    mark("previous step"),
    mark("unit gradients"),
    mark("gathered layers"),
    mark("unpacked matrix"),
    mark("weight copies"),
)
# Of these, the terms whose size depends most on the length: the loss, and score matrices with their layer.
UNEVEN = (mark("logits and loss"), mark("attention scores"), mark("recomputed layer"), mark("layer gradients"))

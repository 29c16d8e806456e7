"""What the phases of one stage are put together from: states, activations, loss, buffers, in bytes of one card."""

from __future__ import annotations

from dataclasses import dataclass

from launch.memory import activations, adapted, adapters, gather, holdings, pipeline, quantised, states
from launch.memory import loss as losses
from launch.memory.holdings import Holding
from launch.memory.job import PlannedJob
from launch.memory.states import States


@dataclass(frozen=True)
class Parts:
    """What the phases are put together from, in bytes."""

    states: States
    trained: float
    kept: tuple[tuple[str, float], ...]
    working: float
    gradient: float
    loss: float
    gathered: float
    saving: float
    buckets: float
    subgroup: float
    unpacked: float
    scratch: float = 0.0
    watched: float = 0.0


@dataclass(frozen=True)
class Blocks:
    """Bytes of a stage-load: `sets` kept whole, `scores` among them, `checkpoints` of recomputed layers; `working` set
    and `gradient` of the layer that is being recomputed and differentiated."""

    sets: float
    scores: float
    checkpoints: float
    working: float
    gradient: float


def blocks(job: PlannedJob, stage: int) -> Blocks:
    """What the layers of a stage keep for one micro batch."""
    m, x = job.model, job.layout
    start = holdings.first_layer(m.layers, x.pp, stage)
    mine = range(start, start + holdings.stage_layers(m.layers, x.pp)[stage])
    kinds = {moe: activations.layer(job, moe) for moe in {m.is_moe(i) for i in mine}}
    sets = {moe: kind.on_card(x.tp, job.sequence_parallel) * job.tokens for moe, kind in kinds.items()}
    again = recomputed(job, len(mine))
    check = activations.checkpoint(job) * job.tokens * again
    if "activations" in job.offload:
        check = min(check, 2 * check / max(1, again))  # the next one is fetched while one is used
    kept = [sets[m.is_moe(i)] for i in mine[again:]]
    if "activations" in job.offload and kept:
        kept = [max(kept)] * min(2, len(kept))
    # Without recompute the last layer's backward pass comes while everything else is kept, so that it decides.
    at_peak = kinds if again else {m.is_moe(i) for i in mine[-1:]}
    most = max(at_peak, key=lambda kind: (sets[kind] if again else 0.0) + kinds[kind].gradient / x.tp * job.tokens)
    score = activations.score(job) / x.tp * job.tokens
    return Blocks(
        sets=sum(kept) - score * len(kept),
        scores=score * len(kept),
        checkpoints=check,
        working=sets[most] if again else 0.0,
        gradient=0.0 if job.framework.in_place else kinds[most].gradient / x.tp * job.tokens,
    )


def recomputed(job: PlannedJob, layers: int) -> int:
    """How many of a stage's layers keep their input alone."""
    if job.recompute.kind == "full":
        return layers
    return min(layers, job.recompute.layers) if job.recompute.kind == "block" else 0


def adapter_states(job: PlannedJob, stage: int) -> tuple[States, float]:
    """States of the adapters and of modules trained in full beside them, and how many parameters that is."""
    f, x = job.framework, job.layout
    dense, experts = adapters.adapters(job.model, x, job.adapter, stage, f.fused_adapters)
    weight, rest = f.adapter_weight, f.adapter - f.adapter_weight
    width = min(weight, 4.0)  # of the type that the optimizer sees; beyond 4 it is an fp32 copy beside 16 bits
    rest += states.moments(job.optimizer, width, 0.0) - states.moments("adamw", width, 0.0)
    held = states.DIVIDES[job.sharding]
    shares = ((dense, x.dense_shards), (experts, x.expert_shards))
    steps = sum(n * rest / (d if held[2] else 1) for n, d in shares)
    weights = sum(n * weight / (d if held[0] else 1) for n, d in shares)
    return States(adapters=weights, adapter_steps=steps), dense + experts


def saved_modules(job: PlannedJob, holding: Holding, last: bool) -> tuple[States, float]:
    """Embedding and head trained in full beside adapters: the frozen copy stays, a trained one of each comes on top,
    also where the frozen ones are tied."""
    count = 0.0
    if "embed" in job.adapter.saved:
        count += holding.embedding
    if "head" in job.adapter.saved and last:
        count += job.model.head.divided / job.layout.tp
    f = job.framework
    shards = job.layout.dense_shards if states.DIVIDES[job.sharding][2] else 1
    weight = f.saved_module / 4
    return States(weights=count * weight, moments=count * (f.saved_module - weight) / shards), count


def beside(job: PlannedJob, stage: int) -> float:
    """Parameters of one card that are trained beside a frozen base."""
    holding = holdings.holding(job.model, job.layout, stage)
    return adapter_states(job, stage)[1] + saved_modules(job, holding, stage == job.layout.pp - 1)[1]


def parts(job: PlannedJob, stage: int) -> Parts:
    """Everything that stage `stage` may hold."""
    holding = holdings.holding(job.model, job.layout, stage)
    scratch = few = 0.0
    if job.trains_all:
        kept, trained = states.full(job, holding), holding.total - holding.vision
    else:
        few_states, few = adapter_states(job, stage)
        more_states, more = saved_modules(job, holding, stage == job.layout.pp - 1)
        trained, scratch = few + more, few * job.framework.adapter / 2 + more * job.framework.saved_module / 2
        kept = base(job, holding) + few_states + more_states
    if job.reference:
        kept += states.frozen(job, holding.total)
    block_set = blocks(job, stage)
    x = job.layout
    loads = 1.0 if x.layer_split else pipeline.in_flight(x.pp, stage, x.vpp, job.grad_accum)
    last = stage == job.layout.pp - 1
    ends = activations.edges(job, stage == 0, last) * job.tokens + activations.positions(job)
    mine = holdings.stage_layers(job.model.layers, x.pp)[stage]
    cast, again = adapted.narrowed(job, few) / max(1, mine), recomputed(job, mine)  # of one layer
    block = holding.dense / max(1, holdings.stage_layers(job.model.layers, job.layout.pp)[stage])
    block += holding.experts / max(1, job.model.layers)
    return Parts(
        states=kept,
        trained=trained,
        kept=(
            ("activations", (block_set.sets + activations.masks(job)) * loads + ends + cast * (mine - again)),
            ("attention scores", block_set.scores * loads),
            ("checkpoints", block_set.checkpoints * loads),
        ),
        working=block_set.working + cast * bool(again),
        gradient=activations.backward(job, block_set.gradient / job.tokens, block_set.working / job.tokens, last)
        * job.tokens,
        loss=losses.loss(job) if last else 0.0,
        gathered=gather.unsharded(job, holding, block),
        saving=gather.saving(job, holding, block) if job.trains_all else 0.0,
        buckets=gather.buckets(job, trained, kept.gradients),
        subgroup=gather.subgroup(job, trained),
        unpacked=quantised.unpacked(job.model.hidden, job.model.ffn, job.layout.tp) if job.quant else 0.0,
        scratch=scratch,
        watched=gather.held_inputs(job, block_set.checkpoints * loads),
    )


def base(job: PlannedJob, holding: Holding) -> States:
    """The frozen base under adapters, quantised or not."""
    if not job.quant:
        return states.frozen(job, holding.total)
    packed, rest = quantised.weights(holding, job.quant, 4.0 if quantised.lifted(job) else 2.0)
    shards = job.layout.dense_shards if states.DIVIDES[job.sharding][0] else 1
    return States(weights=(packed + rest) / shards)

"""The parts of one stage's phases: states, activations, loss and buffers, in bytes of one card."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.messages import mark
from launch.memory import (
    activations,
    adapter_activations,
    adapters,
    autocast,
    large_gradients,
    offloaded,
    parameter_shares,
    pipeline,
    quantised,
    sharding_buffers,
    states,
)
from launch.memory import loss as losses
from launch.memory.parameter_shares import ParameterShare
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C
from launch.memory.states import ModelStates


@dataclass(frozen=True)
class StageParts:
    """The parts of a stage in bytes; `trained` is a number of parameters."""

    states: ModelStates
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
    last_reduction: large_gradients.LastReduction
    retained: float
    scratch: float = 0.0
    unit_gradients: float = 0.0
    unreduced: float = 0.0
    layer_kept: float = 0.0
    layer_checkpoint: float = 0.0
    flat_gradient: float = 0.0
    accumulated: float = 0.0
    gathered_layer: float = 0.0
    released: float = 0.0
    gathered_first: float = 0.0
    gathered_last: float = 0.0
    gathered_loss: float = 0.0
    watched: float = 0.0
    partition: float = 0.0
    unfinished: float = 0.0
    pinned: float = 0.0
    moved: float = 0.0
    copies: float = 0.0
    copies_backward: float = 0.0
    copies_rest: float = 0.0
    adapter_gradients: float = 0.0
    flattened: float = 0.0
    unpacked_head: float = 0.0
    previous: tuple[float, float] = (0.0, 0.0)
    output: float = 0.0
    passing: float = 0.0
    first_norm: float = 0.0
    gathered_start: float = 0.0
    head_reduction: float = 0.0
    shard_copy: float = 0.0
    first_gradient: float = 0.0
    last_gradient: float = 0.0
    waiting: float = 0.0
    undivided: float = 0.0
    buffer_pool: float = 0.0
    buffer_forward: float = 0.0
    buffer_backward: float = 0.0


@dataclass(frozen=True)
class LayerBytes:
    """Activations of a stage for one micro batch, in bytes.

    `sets`: of layers without recompute, without `scores`, their score matrices; `checkpoints`: inputs of recomputed
    layers; `working`, `gradient`: the layer that is being recomputed and its backward pass.
    """

    sets: float
    scores: float
    checkpoints: float
    working: float
    gradient: float


def count_layer_bytes(job: PlannedJob, stage: int) -> LayerBytes:
    """Return what the layers of a stage keep for one micro batch."""
    m, x = job.model, job.layout
    start = parameter_shares.first_layer(m.layers, x.pp, stage)
    mine = range(start, start + parameter_shares.split_layers(m.layers, x.pp)[stage])
    kinds = {moe: activations.layer_activations(job, moe) for moe in {m.is_moe_layer(i) for i in mine}}
    sets = {moe: kind.bytes_on_card(x.tp, job.splits_sequence) * job.tokens for moe, kind in kinds.items()}
    again = count_recomputed_layers(job, len(mine))
    check = activations.checkpoint_bytes(job) * job.tokens * again
    check = check * count_resident_layers(job, again) / max(1, again)
    kept = [sets[m.is_moe_layer(i)] for i in mine[again:]]
    kept = sorted(kept)[len(kept) - count_resident_layers(job, len(kept)) :]
    ahead, more = m.mtp_layers * (stage == x.pp - 1), 0.0
    if ahead:
        more = activations.prediction_activations(job).bytes_on_card(x.tp, job.splits_sequence) * job.tokens
    if ahead and job.recompute.kind == "full":
        check += ahead * 2 * activations.checkpoint_bytes(job) * job.tokens  # the layer's input and the embedding
    elif ahead:
        kept += [sets[m.is_moe_layer(m.layers - 1)] + more] * ahead
    # Without recompute the peak is in the backward pass of the last layer, while everything else is still kept.
    at_peak = kinds if again else {m.is_moe_layer(i) for i in mine[-1:]}
    most = max(at_peak, key=lambda kind: (sets[kind] if again else 0.0) + kinds[kind].gradient / x.tp * job.tokens)
    score = activations.score_bytes(job) / x.tp * job.tokens
    return LayerBytes(
        sets=sum(kept) - score * len(kept),
        scores=score * len(kept),
        checkpoints=check,
        working=sets[most] + more if again else 0.0,
        gradient=0.0 if job.framework.in_place else kinds[most].gradient / x.tp * job.tokens,
    )


def count_resident_layers(job: PlannedJob, layers: int) -> int:
    """Return of how many layers the activations are on the card: of offloaded ones two, one in use, one on its way.

    Megatron offloads those of the first `offload_layers` (Transformer Engine, cpu_offload.py, get_cpu_offload_context).
    """
    if "activations" not in job.offload:
        return layers
    away = min(layers, job.offload_layers or layers)
    return layers - away + min(2, away)


def count_recomputed_layers(job: PlannedJob, layers: int) -> int:
    """Return how many of a stage's layers are recomputed."""
    if job.recompute.kind == "full":
        return layers
    return min(layers, job.recompute.layers) if job.recompute.kind == "block" else 0


def adapter_states(job: PlannedJob, stage: int) -> tuple[ModelStates, float]:
    """Return the states of the adapters and their number of parameters."""
    f, x = job.framework, job.layout
    dense, experts = adapters.count_adapter_params(job.model, x, job.adapter, stage, adapters.has_fused_adapters(job))
    weight = adapters.adapter_weight_bytes(job)
    rest = f.adapter - weight
    width = min(f.adapter_weight, 4.0)  # of the optimizer's type; above 4 bytes, an fp32 copy beside 16-bit weights
    rest += states.moment_bytes(job.optimizer, width, 0.0) - states.moment_bytes("adamw", width, 0.0)
    held = states.DIVIDES[job.sharding]
    shares = ((dense, x.dense_shards), (experts, x.expert_shards))
    steps = sum(n * rest / (d if held[2] else 1) for n, d in shares)
    weights = sum(n * weight / (d if held[0] else 1) for n, d in shares)
    return ModelStates(adapters=weights, adapter_steps=steps), dense + experts


def saved_module_states(job: PlannedJob, holding: ParameterShare, last: bool) -> tuple[ModelStates, float]:
    """Return the states of embedding and head trained in full beside adapters, and their number of parameters.

    Each has a trained copy in addition to the frozen one, even if the frozen ones are tied.
    """
    count = 0.0
    if "embed" in job.adapter.saved:
        count += holding.embedding
    if "head" in job.adapter.saved and last:
        count += job.model.head.divided / job.layout.tp
    f = job.framework
    shards = optimizer_shards(job)
    weight = f.saved_module / 4
    return ModelStates(weights=count * weight, moments=count * (f.saved_module - weight) / shards), count


def count_trained_params(job: PlannedJob, stage: int) -> float:
    """Return the trained parameters of one card with a frozen base model."""
    holding = parameter_shares.compute_parameter_share(job.model, job.layout, stage)
    return adapter_states(job, stage)[1] + saved_module_states(job, holding, stage == job.layout.pp - 1)[1]


def build_stage_parts(job: PlannedJob, stage: int) -> StageParts:
    """Return all parts of stage `stage`."""
    holding = parameter_shares.compute_parameter_share(job.model, job.layout, stage)
    scratch = few = 0.0
    if job.trains_all:
        kept, trained = states.full_training_states(job, holding), holding.total - holding.vision
    else:
        few_states, few = adapter_states(job, stage)
        more_states, more = saved_module_states(job, holding, stage == job.layout.pp - 1)
        trained, scratch = few + more, few * job.framework.adapter / 2 + more * job.framework.saved_module / 2
        scratch /= optimizer_shards(job)
        kept = frozen_base_states(job, holding) + few_states + more_states
        kept += ModelStates(gradients=sharding_buffers.frozen_gradient_bytes(job, holding))
    if job.reference:
        kept += states.frozen_states(job, holding.total)
    gradients = kept.gradients if job.trains_all else few * adapters.adapter_gradient_bytes(job)
    block_set = count_layer_bytes(job, stage)
    x = job.layout
    wide = job.compute / C
    loads = wide if x.layer_split else wide * pipeline.count_loads_in_flight(x.pp, stage, x.vpp, job.grad_accum)
    retained = retained_bytes(job, block_set) * wide
    last, own_units = stage == job.layout.pp - 1, sharding_buffers.has_adapter_units(job)
    norm = activations.norm_activations(job, 1)
    ends = activations.edge_bytes(job, stage == 0, last) * job.tokens + activations.rotary_table_bytes(job)
    mine = parameter_shares.split_layers(job.model.layers, x.pp)[stage]
    cast, again = (
        adapter_activations.autocast_copy_bytes(job, few) / max(1, mine),
        count_recomputed_layers(job, mine),
    )  # of one layer
    copies, copies_backward, copies_later = autocast.weight_copy_bytes(job, holding, again / max(1, mine))
    copied = autocast.layer_copy_bytes(job, holding, max(1, mine))
    block = holding.dense / max(1, parameter_shares.split_layers(job.model.layers, job.layout.pp)[stage])
    block += holding.experts / max(1, job.model.layers) + few / max(1, mine) * sharding_buffers.mixes_units(job)
    head_unit = C * (holding.head or holding.embedding) if sharding_buffers.shards_edges(job) else 0.0
    buffer, second = sharding_buffers.gather_buffer_bytes(job, block), sharding_buffers.is_fully_sharded(job)
    return StageParts(
        states=kept,
        trained=trained,
        kept=(
            (
                "activations",
                (block_set.sets + activations.causal_mask_bytes(job)) * loads
                + (ends + activations.cached_key_bytes(job, again)) * wide
                + cast * (mine - again),
            ),
            (mark("attention scores"), block_set.scores * loads),
            ("checkpoints", block_set.checkpoints * loads),
        ),
        working=block_set.working * wide + (cast + copied) * bool(again) + retained,
        retained=2 * retained,
        gradient=wide
        * activations.backward_bytes(job, block_set.gradient / job.tokens, block_set.working / job.tokens, last)
        * job.tokens,
        loss=losses.loss_bytes(job) if last else 0.0,
        output=losses.output_bytes(job) if last else 0.0,
        gathered=sharding_buffers.unsharded_bytes(job, holding, block),
        gathered_layer=sharding_buffers.unsharded_bytes(job, holding, block, 1.0 if own_units else None),
        released=sharding_buffers.released_bytes(job, holding, block),
        saving=sharding_buffers.checkpoint_save_bytes(job, holding, block) if job.trains_all else 0.0,
        buckets=sharding_buffers.bucket_bytes(job, trained, gradients),
        subgroup=large_gradients.step_gradient_bytes(job, trained),
        unpacked=quantised.unpacked_matrix_bytes(job),
        unpacked_head=quantised.unpacked_head_bytes(job) if last else 0.0,
        previous=adapter_activations.previous_step_bytes(job, mine),
        passing=activations.passing_bytes(job) * job.tokens * wide / x.tp * bool(again),
        first_norm=(norm.gradient + norm.kept_bytes) * job.tokens * own_units,
        scratch=scratch,
        unit_gradients=sharding_buffers.unit_gradient_bytes(job, holding, block),
        unreduced=sharding_buffers.unreduced_bytes(job, holding, block),
        layer_kept=block_set.sets / max(1, mine - again) if job.sharding in ("fsdp", "zero3") else 0.0,
        layer_checkpoint=block_set.checkpoints / max(1, again),
        flat_gradient=sharding_buffers.flat_gradient_bytes(job, block),
        accumulated=sharding_buffers.accumulated_gradient_bytes(job, holding) if job.sharding == "fsdp" else 0.0,
        gathered_first=sharding_buffers.unsharded_bytes(job, holding, block, 3.0 if second else 1.0),
        gathered_last=sharding_buffers.unsharded_bytes(job, holding, block, 2.0 if second and not head_unit else 1.0)
        + head_unit,
        gathered_loss=sharding_buffers.unsharded_bytes(job, holding, block, 1.0 if second and not head_unit else 0.0)
        + head_unit * (2 if job.framework.keeps_head else 1),
        gathered_start=sharding_buffers.first_gather_bytes(job, holding, block),
        head_reduction=sharding_buffers.head_reduction_bytes(job, holding, block),
        last_reduction=large_gradients.count_last_reduction(job, holding, block),
        shard_copy=sharding_buffers.shard_copy_bytes(job, holding, block),
        first_gradient=large_gradients.first_gradient_bytes(job, holding),
        last_gradient=large_gradients.last_gradient_bytes(job, holding, trained),
        waiting=large_gradients.waiting_gradient_bytes(job, holding),
        undivided=large_gradients.undivided_gradient_bytes(job),
        buffer_pool=sharding_buffers.gather_pool_bytes(job, holding, block),
        buffer_forward=head_unit if job.framework.keeps_head and head_unit else buffer,
        buffer_backward=buffer,
        watched=sharding_buffers.held_input_bytes(job, block_set.checkpoints * loads),
        partition=large_gradients.gradient_partition_bytes(job, trained),
        unfinished=sharding_buffers.unfinished_share(job, holding),
        copies=copies + cast * again,
        flattened=sharding_buffers.flattened_bytes(job, trained),
        copies_backward=copies_backward,
        copies_rest=max(0.0, copies_later - copied) * (job.sharding == "fsdp"),
        adapter_gradients=0.0 if job.trains_all else gradients / optimizer_shards(job),
        pinned=offloaded.pinned_gradient_bytes(job),
        moved=offloaded.moved_gradient_bytes(job),
    )


def retained_bytes(job: PlannedJob, layers: LayerBytes) -> float:
    """Return the bytes that Megatron's dispatchers of experts keep of recomputed layers whose backward pass is done.

    They hold the router's weights, and with them the graph of the layer, until its next forward pass
    (token_dispatcher.py, dispatch_preprocess): its input, and the residual before its experts (counted on core 0.16).
    """
    holds = job.model.moe is not None and job.kernels.weighted_experts and not job.framework.overlap_gradients
    return layers.checkpoints * (holds and job.recompute.kind == "full")


def optimizer_shards(job: PlannedJob) -> int:
    """Return how many cards share what belongs to the optimizer."""
    return job.layout.dense_shards if states.DIVIDES[job.sharding][2] else 1


def frozen_base_states(job: PlannedJob, holding: ParameterShare) -> ModelStates:
    """Return the states of the frozen base model, quantised or not."""
    if not job.quant:
        return states.frozen_states(job, holding.total)
    lift = 4.0 if quantised.is_lifted(job) else 2.0
    packed, rest = quantised.base_weight_bytes(holding, job.quant, lift, job.framework.quantised_head)
    shards = job.layout.dense_shards if states.DIVIDES[job.sharding][0] else 1
    return ModelStates(weights=(packed + quantised.outlier_bytes(job, packed) + rest) / shards)

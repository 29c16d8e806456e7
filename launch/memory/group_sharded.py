"""Memory of Paddle's group sharding: whole tensors for each rank in stage 2, single matrices gathered in stage 3.

Counted on real ranks; sources: paddle/distributed/fleet/meta_parallel/sharding, group_sharded_stage2.py,
group_sharded_optimizer_stage2.py and group_sharded_stage3.py.
"""

from __future__ import annotations

from functools import lru_cache

from launch.catalogue.architecture import Model
from launch.memory.parameter_shares import ParameterShare, list_matrices
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C


def stores_gradients(job: PlannedJob) -> bool:
    """Whether stage 2 reduces gradients in a buffer for each rank."""
    return job.sharding == "zero2" and job.framework.storage > 0


def gathers_matrices(job: PlannedJob) -> bool:
    """Whether stage 3 gathers one matrix after the other, with the next one."""
    return job.sharding == "zero3" and job.framework.storage > 0


@lru_cache(maxsize=64)
def count_fullest_entries(sizes: tuple[int, ...], ranks: int) -> int:
    """Return the entries of the fullest rank: each tensor goes to the rank that has least (_segment_params)."""
    held = [0] * ranks
    for size in sizes:
        held[held.index(min(held))] += size
    return max(held)


def partition_excess(job: PlannedJob) -> float:
    """Return by which factor the fullest rank of stage 2 exceeds an even partition of full training."""
    model, shards = job.model, job.layout.dense_shards
    if not (stores_gradients(job) and job.trains_all) or job.layout.pp > 1 or model.moe is not None:
        return 1.0
    sizes = list_matrices(model)
    return max(1.0, count_fullest_entries(sizes, shards) * shards / sum(sizes))


def storage_bytes(job: PlannedJob, trained: float, gradients: float) -> float:
    """Return the bytes of the buffers for the gradients of the other ranks, from the forward to the backward pass.

    Each has as many entries as the fullest rank trains, at most `buffer_max_size`; `gradients` are a rank's own.
    """
    shards = job.layout.dense_shards
    own = trained * partition_excess(job) / shards
    return (shards - 1) * gradients * min(1.0, job.framework.storage / own) if own else 0.0


def count_layer_matrices(model: Model, fused: bool) -> tuple[float, float]:
    """Return the entries of the last matrix of a layer and of the one before it, gate and up in one if `fused`."""
    width = model.moe.ffn if model.moe else model.ffn
    last = float(model.hidden * width)
    return last, last * (2 if fused and model.gated else 1)


def gathered_bytes(job: PlannedJob) -> float:
    """Return the bytes of gathered weights while a layer runs: a matrix and the next one."""
    return C * sum(count_layer_matrices(job.model, job.framework.fused_adapters)) / job.layout.tp


def passing_bytes(job: PlannedJob, entries: float) -> float:
    """Return the bytes of a matrix's gradients in its backward pass, beyond its gathered weights and the states.

    A zeroed gradient in full, the one that autograd makes, and the rank's slice of the former (_create_params_grad,
    _get_allreduce_fn); with an fp32 gradient autograd's is released first.
    """
    if not job.trains_all:
        return 0.0
    width, shards = job.precision.gradient, job.layout.dense_shards
    made = C if width <= C else max(C * (1 - 1 / shards) - width / shards, 0.0)
    return entries * (width + made)


def layer_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the gradients of a layer's last matrix in its backward pass."""
    entries = count_layer_matrices(job.model, False)[0] / job.layout.tp
    return passing_bytes(job, entries) + job.precision.gradient * entries / job.layout.dense_shards * job.trains_all


def head_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of the head's backward pass, while all activations are kept: weights and gradients."""
    entries, width, shards = holding.head or holding.embedding, job.precision.gradient, job.layout.dense_shards
    making = entries * (C * (1 - 1 / shards) + width + C) + logits_gradient_bytes(job)
    return max(making, entries * (C + width / shards) + passing_bytes(job, entries))


def logits_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the logits' gradient, which the head's backward pass reads; a fused loss has none."""
    return 0.0 if job.fused_loss else C * job.tokens * job.model.vocab / job.layout.tp


def adds_gradients(job: PlannedJob) -> bool:
    """Whether autograd's gradients are added to those that the framework keeps, outside of stage 3."""
    return job.framework.storage > 0 and job.trains_all and job.layout.pp == 1


def made_head_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of the head's gradient as autograd makes it, and of the logits' gradient."""
    return C * (holding.head or holding.embedding) + logits_gradient_bytes(job)


def embedding_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of the embedding's backward pass beyond states with all gradients."""
    return C * holding.embedding + passing_bytes(job, holding.embedding)

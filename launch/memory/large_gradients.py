"""Gradients that are on a card in full, beside shards and buckets: those of head and embedding, and large ones.

DeepSpeed copies a gradient into the bucket of its reduction, unless it is larger; then the tensor itself is reduced
when the next gradient exists (stage_1_and_2.py and stage3.py, reduce_independent_p_g_buckets_and_remove_grads).  The
gradient of a tied embedding waits from the head's backward pass to the embedding's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor

from launch.catalogue.architecture import Model
from launch.memory import autocast, group_sharded, offloaded
from launch.memory.parameter_shares import ParameterShare, list_matrices
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C
from launch.memory.sharding_buffers import (
    first_bucket,
    is_fully_sharded,
    sharded_gradient_width,
    shards_edges,
    subgroup_bytes,
)


def has_own_gradients(job: PlannedJob) -> bool:
    """Whether all parameters have gradients of autograd's, not in buffers of the framework's, on a whole model."""
    return job.trains_all and job.framework.overlap_gradients and job.layout.pp == 1


def reduces_in_buckets(job: PlannedJob) -> bool:
    """Whether ZeRO-1 or 2 reduces such gradients."""
    return has_own_gradients(job) and job.sharding in ("zero1", "zero2")


def gradient_partition_bytes(job: PlannedJob, trained: float) -> float:
    """Return the bytes that ZeRO-1 and 2 add to the gradients when they first reduce some of a rank's own partition.

    The buffer for the whole partition is allocated then, also if there are gradients of earlier micro batches
    (stage_1_and_2.py, copy_grads_in_partition); those of stage 1, which are whole, have moved into one bucket.
    """
    buckets = job.sharding in ("zero1", "zero2") and not group_sharded.stores_gradients(job)
    if not buckets or not job.trains_all or offloaded.steps_on_host(job):
        return 0.0
    whole = job.sharding == "zero1" and job.batches > 1
    moved = job.precision.gradient * min(trained, first_bucket(job)) if whole else 0.0
    return job.precision.gradient * partition_entries(job, trained) - moved


@lru_cache(maxsize=64)
def sum_largest_partition(model: Model, shards: int) -> int:
    """Return the entries of all tensors of which one rank has a part, the largest such sum."""
    sizes, start = list_matrices(model), 0
    own, held = sum(sizes) / shards, [0] * shards
    for size in sizes:
        for rank in range(floor(start / own), min(shards, ceil((start + size) / own))):
            held[rank] += size
        start += size
    return max(held)


def partition_entries(job: PlannedJob, trained: float) -> float:
    """Return the entries of the fullest rank's gradients in full training: DeepSpeed's have whole tensors."""
    x = job.layout
    own = trained / x.dense_shards
    if not job.framework.overlap_gradients:
        return own
    return max(own, sum_largest_partition(job.model, x.dense_shards * x.pp) / x.tp)


def first_gradient_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of the head's gradient while all activations are kept.

    ZeRO-1 and 2: if it is larger than the bucket, besides the partition that its reduction makes.  ZeRO-3: with the
    gathered head.
    """
    if group_sharded.gathers_matrices(job):
        return group_sharded.head_bytes(job, holding) if job.trains_all else 0.0
    if group_sharded.adds_gradients(job):
        return group_sharded.made_head_bytes(job, holding)
    if not has_own_gradients(job):
        return 0.0
    if job.sharding == "zero3":
        return 2 * C * (holding.head or holding.embedding) + offloaded.moved_gradient_bytes(job)
    if not reduces_in_buckets(job) or holding.head <= first_bucket(job):
        return 0.0
    return C * holding.head + offloaded.moved_gradient_bytes(job)


def waiting_gradient_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of the head's gradient that a tied embedding keeps out of the buckets of ZeRO-1 and 2."""
    return C * holding.embedding * (reduces_in_buckets(job) and job.model.tied)


def count_last_tables(job: PlannedJob) -> int:
    """Return how many gradients of the embedding exist at the end of the backward pass: a tied one has two and a sum.

    autograd adds in place to a gradient that is the only use of its storage (torch/csrc/autograd/input_buffer.cpp).
    A linear layer's is a view, unless autocast copied it or ZeRO-3's own function made it (zero/linear.py).
    """
    in_place = job.sharding == "zero3" or autocast.casts_weights(job)
    return 1 + job.model.tied * (1 if in_place else 2)


def last_gradient_bytes(job: PlannedJob, holding: ParameterShare, trained: float) -> float:
    """Return the bytes that the embedding's gradient adds to those of all others at the end of the backward pass.

    Without sharding one of a tied embedding's is among the others, beside gradients of earlier micro batches.  Then
    ZeRO-1 and 2 reduce what the bucket holds, and offloading takes the norm.  ZeRO-3 has the embedding gathered.
    """
    if group_sharded.gathers_matrices(job):
        return group_sharded.embedding_bytes(job, holding) if job.trains_all else 0.0
    if group_sharded.adds_gradients(job):
        return C * holding.embedding
    if not has_own_gradients(job) or job.sharding == "fsdp":
        return 0.0
    tables = count_last_tables(job)
    if job.sharding == "none":
        earlier = job.model.tied and job.batches > 1
        return job.precision.weight * holding.embedding * (tables - 1 + earlier)
    table = C * holding.embedding
    bucket = job.framework.bucket / 2 if job.sharding == "zero3" else first_bucket(job)
    passing = (
        table * tables,
        table + flattened_bucket_bytes(job, holding.embedding, trained),
        table * (holding.embedding > bucket) + offloaded.moved_gradient_bytes(job),
    )
    return max(passing) + (table if job.sharding == "zero3" else undivided_gradient_bytes(job))


@dataclass(frozen=True)
class LastReduction:
    """Bytes when FSDP reduces its last unit: gathered weights, gradients and buffers; `absent`: of the card's own."""

    gathered: float = 0.0
    gradients: float = 0.0
    absent: float = 0.0

    @property
    def total(self) -> float:
        """All bytes beyond states with all gradients."""
        return self.gathered + self.gradients - self.absent


def count_last_reduction(job: PlannedJob, holding: ParameterShare, block: float) -> LastReduction:
    """Return what is there beyond states with all gradients when FSDP reduces its last unit (counted on real ranks).

    A unit of the embedding: its gradients and the input of their reduction.  The root unit, still gathered: FSDP1 has
    its gradients, also as one flat gradient; FSDP2 the gradients and the input of the reduction before, then the input
    of its own and the head's gradients.
    """
    f = job.framework
    if job.sharding != "fsdp" or job.layout.pp > 1 or not job.trains_all:
        return LastReduction()
    if shards_edges(job):
        return LastReduction(gradients=max(C + f.reduce_width, C * count_last_tables(job)) * holding.embedding)
    root = holding.embedding + holding.head
    own = sharded_gradient_width(job) * root
    several = job.batches > 1
    tables = max(2, count_last_tables(job))
    if not is_fully_sharded(job):
        width, earlier = autocast.gathered_width(job), several and f.accumulates_whole
        return LastReduction(width * root, width * root * (tables + earlier), own * (earlier or not several))
    reducing = LastReduction(gradients=f.reduce_width * root + C * holding.head + own * several)
    before = LastReduction(
        C * root, C * root * (1 if holding.head else tables) + f.reduce_width * block, own * (not several)
    )
    return max(reducing, before, key=lambda each: each.total)


def flattened_bucket_bytes(job: PlannedJob, start: float, trained: float) -> float:
    """Return the bytes of the copy of a bucket that starts at this parameter, if it has slices of several ranks.

    Those are flattened for one reduction (stage_1_and_2.py, allreduce_and_copy_with_multiple_ranks).
    """
    end, own = min(trained, start + first_bucket(job)), trained / job.layout.dense_shards
    return C * (end - start) * (floor(start / own) < floor((end - 1) / own)) if reduces_in_buckets(job) else 0.0


def undivided_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the gradients that are larger than the bucket and not of the first rank's partition.

    ZeRO-1 frees them in the step; the others are views of a bucket.  Between micro batches all are whole.
    """
    if not reduces_in_buckets(job) or job.sharding != "zero1" or job.batches > 1:
        return 0.0
    large = [size for size in list_matrices(job.model) if size > first_bucket(job)]
    return C * (sum(large) - max(sum(large) / job.layout.dense_shards, *large[:1], 0.0))


def step_gradient_bytes(job: PlannedJob, trained: float) -> float:
    """Return the bytes of gradients that the step of ZeRO makes besides those of the backward pass.

    First ZeRO-1 and 2 have a rank's part of the largest gradient in fp64, for its norm (get_grad_norm_direct).
    """
    flat = subgroup_bytes(job, trained)
    if not reduces_in_buckets(job) or offloaded.steps_on_host(job):
        return flat
    own, largest = trained / job.layout.dense_shards, job.model.largest_tensor / job.layout.tp
    return max(flat, 8.0 * min(largest, own)) + C * max(0.0, largest - own)

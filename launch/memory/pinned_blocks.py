"""What torch's allocator of page-locked memory takes beyond DeepSpeed's requests: its blocks are powers of two.

torch rounds each request up and keeps freed blocks (ATen/core/CachingHostAllocator.h, torch 1.12 and later).  DeepSpeed
pins fp32 gradients by sub-group and the flat buffers of gradients and parameters (stage3.py, stage_1_and_2.py), and
before that the partition of each parameter (partition_parameters.py); moments and ZeRO-3's fp32 copies are not pinned.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil

from launch.catalogue.architecture import Model
from launch.memory import offloaded
from launch.memory.parameter_shares import list_matrices
from launch.memory.planned_job import PlannedJob


def round_block(size: float) -> float:
    """Return the smallest power of two that is not below `size`."""
    return float(1 << (ceil(size) - 1).bit_length()) if size > 0 else 0.0


def sum_surplus(sizes: Iterator[float] | tuple[float, ...]) -> float:
    """Return the bytes by which the blocks of these requests are larger than the requests."""
    return sum(round_block(size) - size for size in sizes)


def join_groups(partitions: tuple[int, ...], least: float) -> Iterator[int]:
    """Yield the entries of sub-groups: each ends with the parameter that makes it as large as `least`."""
    group = 0
    for size in partitions:
        group += size
        if group >= least:
            yield group
            group = 0
    if group:
        yield group


@lru_cache(maxsize=256)
def sharded_surplus(model: Model, shards: int, subgroup: float, away: frozenset[str]) -> float:
    """Return the surplus of ZeRO-3 in full training.  Its first partitions stay in the cache when the flat buffer has
    their contents."""
    partitions = tuple(-(-size // shards) for size in list_matrices(model))
    whole = sum(partitions)
    surplus = 0.0
    if "optimizer" in away:
        surplus += sum_surplus(4.0 * group for group in join_groups(partitions, subgroup))
        surplus += sum_surplus((2.0 * whole,))
    if "params" in away:
        surplus += sum_surplus((2.0 * whole,)) + sum(round_block(2.0 * size) for size in partitions)
    return surplus


def pinned_surplus_bytes(job: PlannedJob, trained: float) -> float:
    """Return the bytes that blocks of one card take beyond what offloading to the host asks for, if it is pinned.

    ZeRO-1 and 2 pin the fp32 copy, its gradient, the updated weights, the buffer of the largest gradient, and with
    several micro batches each gradient of ZeRO-2's partition.
    """
    if not job.sharding.startswith("zero") or not job.offload & {"optimizer", "params"}:
        return 0.0
    shards, own = job.layout.dense_shards, trained / job.layout.dense_shards
    if job.sharding == "zero3" and job.trains_all:
        return sharded_surplus(job.model, shards * job.layout.tp, job.framework.subgroup, job.offload)
    surplus = 0.0
    if offloaded.steps_on_host(job):
        requests = (4.0 * own, 2.0 * own) if job.sharding == "zero3" else (4.0 * own, 4.0 * own, 2.0 * own)
        surplus += sum_surplus((*requests, offloaded.pinned_gradient_bytes(job)))
        if job.sharding == "zero2" and job.trains_all and job.batches > 1:
            surplus += sum_surplus(2.0 * size for size in list_matrices(job.model)) / shards
    if "params" in job.offload and job.sharding == "zero3" and not job.quant:
        surplus += sum_surplus(2.0 * -(-size // shards) for size in list_matrices(job.model))
    return surplus

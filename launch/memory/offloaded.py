"""What offloading keeps on the host, and on the card for gradients on their way there."""

from __future__ import annotations

from launch.memory.planned_job import PlannedJob
from launch.memory.states import ModelStates

NORM_CHUNK = 2.5e8  # entries (DeepSpeed, stage3.py, _constant_buffered_norm2)


def steps_on_host(job: PlannedJob) -> bool:
    """Whether DeepSpeed's optimizer steps on the host, from fp32 gradients that are there."""
    return "optimizer" in job.offload and job.sharding.startswith("zero")


def offloaded_bytes(job: PlannedJob, states: ModelStates, trained: float) -> float:
    """Return the bytes on the host for one card whose states and trained parameters these are.

    DeepSpeed has, besides the fp32 copies and moments, a gradient in fp32 and 2 bytes per parameter: ZeRO-3 the
    gradients in 16 bit, ZeRO-1 and 2 the updated weights.  Between micro batches ZeRO-2 has the gradients in 16 bit as
    well; those of ZeRO-1 are whole, on the card.
    """
    whole = "params" in job.offload and job.sharding == "fsdp"  # CPUOffload moves the optimizer, too
    away = states.optimizer if whole or {"optimizer", "tensorwise"} & job.offload else 0.0
    if steps_on_host(job):
        several = job.sharding == "zero2" and job.batches > 1
        away += (4.0 + 2.0 + 2.0 * several) * trained / job.layout.dense_shards + pinned_gradient_bytes(job)
    away *= job.offload_share
    if "params" in job.offload:
        away += states.weights + states.adapters + (0.0 if steps_on_host(job) else states.gradients)
    return away


def pinned_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the buffer that ZeRO-1 and 2 have on both sides for the largest gradient, 2 per entry."""
    return 2.0 * job.model.largest_tensor * (steps_on_host(job) and job.sharding != "zero3" and job.trains_all)


def moved_gradient_bytes(job: PlannedJob) -> float:
    """Return the bytes of the wide copy of the largest gradient on its way to the host: in fp64, for its norm.

    ZeRO-3 takes the norm of a partition in chunks, ZeRO-1 and 2 that of a gradient (stage_1_and_2.py,
    set_norm_for_param_grad_in_gpu).
    """
    if not steps_on_host(job) or not job.trains_all:
        return 0.0
    if job.sharding == "zero3":
        return 8.0 * min(NORM_CHUNK, job.model.largest_tensor / job.layout.dense_shards)
    return 8.0 * job.model.largest_tensor

"""Memory beside the tensors: allocator cache, framework context, communication; and the limit of the card."""

from __future__ import annotations

from launch.memory import GIB, caching_allocator
from launch.memory.planned_job import PlannedJob


def count_communicators(job: PlannedJob) -> int:
    """Return the communicators of a rank: the world, and one per degree above 1, two for the pipeline."""
    x = job.layout
    if x.cards <= 1 or x.layer_split:
        return 0
    return 1 + (x.tp > 1) + 2 * (x.pp > 1) + (x.dense_shards > 1) + (x.ep > 1) + (x.cp > 1)


def context_bytes(job: PlannedJob) -> float:
    """Return the bytes outside the framework's allocator.

    Kernels and context, the first collective in proportion to its peers in the node, and further communicators.
    """
    d, count = job.device, count_communicators(job)
    peers = (min(job.layout.cards, d.cards_per_node) - 1) / max(1, d.cards_per_node - 1)
    extra = d.collective_gib * peers + d.communicator_gib * max(0, count - 1) if count else 0.0
    return (d.context_gib + extra) * GIB


def usable_bytes(job: PlannedJob) -> float:
    """Return the bytes available for tensors: the card minus the use when idle and the context."""
    return (job.memory_gib - job.device.idle_gib) * GIB - context_bytes(job)


def workspace_bytes(job: PlannedJob) -> float:
    """Return the workspace bytes of matrix and other libraries inside the allocator, larger on some cards."""
    return (job.framework.workspace_gib + job.device.workspace_gib) * GIB


def allocator_slack_bytes(
    job: PlannedJob, static: float, dynamic: float, kept: float, varying: float, pooled: float = 0.0
) -> float:
    """Return the bytes of allocator cache and fragmentation: (growth - 1) x dynamic tensors, and `pooled`.

    With varying lengths the largest blocks (loss, score matrices) occur in many sizes: (varying growth - 1) x varying.
    Layers gathered and freed between kept activations leave gaps: (gather growth - 1) x kept.  It is at least what
    large blocks leave that do not fit each other (launch/memory/caching_allocator.py).  `pooled` are blocks of other
    streams, which no tensor of this phase can take.  The result is limited by the card, whose allocator frees cached
    blocks before it fails.
    """
    f = job.framework
    growth = f.growth_varying if job.varying_lengths else f.growth
    wanted = (f.growth - 1) * (dynamic - varying) + (growth - 1) * varying
    if job.sharding == "zero3":
        wanted += (f.gather_growth - 1) * kept
    wanted = max(wanted, caching_allocator.unusable_bytes(job))
    if job.expandable:
        wanted /= 4  # expandable segments merge free blocks (PyTorch, CUDA memory management)
    return max(0.0, min(wanted + pooled, 0.98 * usable_bytes(job) - static - dynamic))


def list_meter_terms(
    job: PlannedJob, static: float, dynamic: float, kept: float, varying: float, pooled: float = 0.0
) -> dict[str, float]:
    """Return the terms that the job's meter adds to the tensors, in bytes by name."""
    parts = {"workspace": workspace_bytes(job)}
    if job.meter == "allocated":
        return parts
    parts["allocator slack"] = allocator_slack_bytes(job, static, dynamic, kept, varying, pooled)
    if job.meter == "smi":
        parts["context"] = context_bytes(job)
        parts["in use when idle"] = job.device.idle_gib * GIB
    return parts

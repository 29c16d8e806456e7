"""What a meter shows of the tensors: allocator cache, framework context, communication, and the card's own limit."""

from __future__ import annotations

from launch.memory import GIB
from launch.memory.job import PlannedJob


def communicators(job: PlannedJob) -> int:
    """World, and one for each degree above 1; pipeline neighbours count two."""
    x = job.layout
    if x.cards <= 1 or x.layer_split:
        return 0
    return 1 + (x.tp > 1) + 2 * (x.pp > 1) + (x.dense_shards > 1) + (x.ep > 1) + (x.cp > 1)


def context(job: PlannedJob) -> float:
    """Outside the framework's allocator: kernels and context, the first collective by the peers that it connects in the
    node, further communicators."""
    d, count = job.device, communicators(job)
    peers = (min(job.layout.cards, d.cards_per_node) - 1) / max(1, d.cards_per_node - 1)
    extra = d.collective_gib * peers + d.communicator_gib * max(0, count - 1) if count else 0.0
    return (d.context_gib + extra) * GIB


def usable(job: PlannedJob) -> float:
    """What tensors may take: the card, less what is in use when idle, less the context."""
    return (job.memory_gib - job.device.idle_gib) * GIB - context(job)


def workspace(job: PlannedJob) -> float:
    """What matrix and other libraries take from the allocator as scratch, more on some cards."""
    return (job.framework.workspace_gib + job.device.workspace_gib) * GIB


def slack(job: PlannedJob, static: float, dynamic: float, kept: float, varying: float) -> float:
    """Cache and fragmentation: (growth - 1) x what comes and goes; lengths that vary leave the largest blocks, those of
    the loss and of score matrices, in many sizes: (varying growth - 1) x varying.

    Where layers are gathered and freed among activations that stay, those blocks cannot join: (gather growth - 1) x
    activations.  Nothing grows beyond the card, whose allocator gives cached blocks back before it fails.
    """
    f = job.framework
    growth = f.growth_varying if job.varying_lengths else f.growth
    wanted = (f.growth - 1) * (dynamic - varying) + (growth - 1) * varying
    if job.sharding == "zero3":
        wanted += (f.gather_growth - 1) * kept
    if job.expandable:
        wanted /= 4  # expandable segments join what is free (pytorch, CUDA memory management)
    return max(0.0, min(wanted, 0.98 * usable(job) - static - dynamic))


def reading(job: PlannedJob, static: float, dynamic: float, kept: float, varying: float) -> dict[str, float]:
    """The parts that the job's meter adds to the tensors, by name."""
    parts = {"workspace": workspace(job)}
    if job.meter == "allocated":
        return parts
    parts["allocator slack"] = slack(job, static, dynamic, kept, varying)
    if job.meter == "smi":
        parts["context"] = context(job)
        parts["in use when idle"] = job.device.idle_gib * GIB
    return parts

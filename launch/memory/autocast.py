"""What autocast adds where weights are in fp32 when they are used: 16-bit copies of them, a residual stream in fp32.

torch caches the 16-bit copy of a trained weight until the outermost autocast context ends (aten/src/ATen/
autocast_mode.cpp, cached_cast); products keep it for the gradient of their input, also that of a frozen weight.
DeepSpeed holds weights in 16 bit and FSDP gathers them so, unless it has no MixedPrecision: then the gathered weights
are views, whose copies are not cached.
"""

from __future__ import annotations

from launch.memory.parameter_shares import ParameterShare
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C


def casts_weights(job: PlannedJob) -> bool:
    """Whether weights are cast to 16 bit for each product, so that residual stream and norms are in fp32."""
    p = job.precision
    wide = job.sharding == "none" or (job.sharding == "fsdp" and job.framework.casts_shards)
    return p.weight == 4.0 and job.compute < p.weight and wide and not job.quant


def gathered_width(job: PlannedJob) -> float:
    """Return the bytes of a gathered parameter of FSDP, and of its gradient before it is reduced."""
    return job.precision.weight if casts_weights(job) else C


def weight_copy_bytes(job: PlannedJob, holding: ParameterShare, again: float) -> tuple[float, float, float]:
    """Return the bytes of 16-bit copies at the end of the forward pass, at the start of the backward pass, and later.

    `again`: the share of recomputed layers, whose copies in the forward pass are only in the cache, and which make
    theirs again one layer after the other.  Embedding and norms are not cast.  Later: of the layers alone.
    """
    if not casts_weights(job):
        return 0.0, 0.0, 0.0
    matrices = holding.dense - holding.norms + holding.experts
    head = holding.head or holding.embedding
    kept = matrices * (1.0 - again)
    cached = job.trains_all and job.sharding == "none"
    return C * ((matrices if cached else kept) + head), C * (kept + head), C * kept


def layer_copy_bytes(job: PlannedJob, holding: ParameterShare, layers: int) -> float:
    """Return the bytes of the copies of a layer's gathered weights."""
    copied = casts_weights(job) and job.sharding == "fsdp"
    return C * (holding.dense - holding.norms + holding.experts) / layers if copied else 0.0

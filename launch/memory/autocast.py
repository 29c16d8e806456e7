"""What autocast adds where weights are in fp32 and not sharded: 16-bit copies of them, and a residual stream in fp32.

torch caches the 16-bit copy of a trained weight until the outermost autocast context ends (aten/src/ATen/
autocast_mode.cpp, cached_cast); products keep it for the gradient of their input, also that of a frozen weight.  Under
FSDP and DeepSpeed the framework gathers or holds weights in 16 bit, so nothing is cast.
"""

from __future__ import annotations

from launch.memory.parameter_shares import ParameterShare
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C


def casts_weights(job: PlannedJob) -> bool:
    """Whether weights are cast to 16 bit for each product, so that residual stream and norms are in fp32."""
    p = job.precision
    return p.weight == 4.0 and p.compute < p.weight and job.sharding == "none" and not job.quant


def weight_copy_bytes(job: PlannedJob, holding: ParameterShare, again: float) -> tuple[float, float]:
    """Return the bytes of 16-bit copies at the end of the forward pass, and at the start of the backward pass.

    `again`: the share of recomputed layers, whose copies in the forward pass are only in the cache, and which make
    theirs again one layer after the other.  Embedding and norms are not cast.
    """
    if not casts_weights(job):
        return 0.0, 0.0
    matrices = holding.dense - holding.norms + holding.experts
    head = holding.head or holding.embedding
    kept = matrices * (1.0 - again)
    return C * ((matrices if job.trains_all else kept) + head), C * (kept + head)

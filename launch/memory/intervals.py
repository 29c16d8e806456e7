"""How far published readings lie from predictions, as factors: the interval of a prediction.

residuals.toml has factors by regime, between which 90 % of the readings lie of sources on which no number of the
planner was fitted.  `python -m benchmarks.memory_intervals` computes the file and the coverage for left-out sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from envcheck.core.toml_file import load_own_part, load_own_table
from launch.catalogue import frameworks
from launch.memory.planned_job import PlannedJob
from launch.memory.saved_activations import C

FILE = frameworks.FILE.with_name("residuals.toml")
# Regimes: whole layers on one card, of which tensors are read, more than tensors, or nobody says what.  The others by
# what a job has and whether tensors alone are read, or more: whole layers on several cards; parts divided over several
# cards; a mixture of experts; on one card parts that are moved or gaps that are read; a dense model on several cards of
# which nobody says what is read; assumed settings.
REGIMES = (
    "whole", "reserved", "unnamed", "replicas", "plain", "divided", "complex", "experts", "routed", "moved",
    "unspecified", "assumed",
)  # fmt: skip
(
    WHOLE, RESERVED, UNNAMED, REPLICAS, PLAIN, DIVIDED, COMPLEX, EXPERTS, ROUTED, MOVED, UNSPECIFIED, ASSUMED,
) = REGIMES  # fmt: skip
OBEYED = 0.95  # share of the readings of left-out sources that must not exceed the limit where "up to" is printed


@dataclass(frozen=True)
class Residuals:
    """Factors of a prediction: between `low` and `high` lie 9 of 10 readings, `limit` is shown as "up to".

    Where inputs are open, `low` is that of the least prediction for their values, `high` and `limit` of the largest.

    `readings`, `sources`: their number.  `inside`, `obeyed`: share of the readings of left-out sources that lie between
    `low` and `high`, and not above `limit`.
    """

    low: float
    high: float
    readings: int
    sources: int
    limit: float
    inside: float
    obeyed: float


@cache
def load_residuals() -> dict[str, Residuals]:
    """Return the residuals by regime."""
    table = load_own_table(FILE)["regimes"]
    return {name: load_own_part(Residuals, FILE, part, name) for name, part in table.items()}


def find_regime(job: PlannedJob) -> str:
    """Return the regime of the job; two readings alone are of a training that computes in fp32."""
    if not job.is_complete or job.compute > C:
        return ASSUMED
    several, tensors = job.layout.cards > 1, job.meter == "allocated"
    if job.model.moe:
        return EXPERTS if tensors else ROUTED
    if several and not job.meter_known:
        return UNSPECIFIED
    if (is_divided(job) or reads_gaps(job)) and (several or not tensors or "activations" in job.offload):
        return MOVED if not several else DIVIDED if tensors else COMPLEX
    if several:
        return REPLICAS if tensors else PLAIN
    return WHOLE if tensors else RESERVED if job.meter_known else UNNAMED


def is_divided(job: PlannedJob) -> bool:
    """Whether a model is divided within its replica, its weights are sharded by DeepSpeed, or parts are moved.

    Stages, buffers and transfers differ between frameworks and versions more than the states of a whole model.
    """
    x = job.layout
    return job.sharding in ("dist_opt", "zero3") or max(x.tp, x.pp) > 1 or bool(job.offload)


def reads_gaps(job: PlannedJob) -> bool:
    """Whether the reading includes the allocator's cache, and lengths vary: every length leaves blocks of its own."""
    return job.varying_lengths and job.meter != "allocated"


def find_residuals(job: PlannedJob) -> Residuals:
    """Return the residuals for what the job's meter reads, those of its regime."""
    return load_residuals()[find_regime(job)]


def find_tensor_residuals(job: PlannedJob) -> Residuals:
    """Return the residuals for the job's tensors, without cache, context and what else only its meter reads."""
    return find_residuals(replace(job, meter="allocated", meter_known=True))


def find_limit_factor(job: PlannedJob) -> float | None:
    """Return the factor of the limit of the tensors' memory, None if too few readings of left-out sources obey it."""
    found = find_tensor_residuals(job)
    return found.limit if found.obeyed >= OBEYED else None

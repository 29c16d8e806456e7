"""How far published readings lie from predictions, as factors: the interval of a prediction.

residuals.toml has factors for each regime, between which 90 % of the readings lie of sources on which no number of the
planner was fitted; and for frameworks with enough readings the factors of these, drawn towards those of the regime.
`python -m benchmarks.memory_intervals` computes the file and the coverage for left-out sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from envcheck.core.toml_file import load_own_part, load_own_table
from launch.catalogue import frameworks
from launch.memory.planned_job import PlannedJob

FILE = frameworks.FILE.with_name("residuals.toml")
# Regimes, by what is read: tensors; the allocator's reserved memory; the vendor's tool, rounded or unspecified figures.
TENSORS, RESERVED, OTHER = REGIMES = ("tensors", "reserved", "other")
OBEYED = 0.95  # share of the readings of left-out sources that must not exceed the limit where "up to" is printed


@dataclass(frozen=True)
class Residuals:
    """Factors of a prediction: between `low` and `high` lie 9 of 10 readings, `limit` is shown as "up to".

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
def load_residuals(group: str) -> dict[str, Residuals]:
    """Return the residuals by name; `group` is regimes or frameworks."""
    table = load_own_table(FILE)[group]
    return {name: load_own_part(Residuals, FILE, part, name) for name, part in table.items()}


def find_residuals(job: PlannedJob, regime: str = TENSORS) -> Residuals:
    """Return the residuals for a job in a regime, those of its framework if there are any."""
    own = load_residuals("frameworks").get(f"{job.framework.name}-{regime}")
    return own or load_residuals("regimes")[regime]


def find_limit_factor(job: PlannedJob) -> float | None:
    """Return the factor of the limit of the tensors' memory, None if too few readings of left-out sources obey it."""
    found = find_residuals(job)
    return found.limit if found.obeyed >= OBEYED else None

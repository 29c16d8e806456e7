"""A machine's own correction, learnt from runs that recorded a predicted and a measured peak: one factor, one offset.

Both are bounded, shown, and gone when the option is left out.  A run record holds `memory`: {"predicted_bytes": ...,
"measured_bytes": ...}; records without it are passed over.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from envcheck.core.errors import UntoldError
from launch.memory import GIB, meter
from launch.memory.job import PlannedJob
from launch.planner import FITS, NOT, UNTOLD, LaunchPlan

FACTORS = (0.8, 1.25)
OFFSETS_GIB = (-4.0, 8.0)
LARGEST = 8 << 20
RECORDS, FOLDERS = 10_000, 100_000  # a folder of runs has far fewer; somebody may name /


@dataclass(frozen=True)
class Correction:
    """measured = factor x predicted + offset, from `runs` runs."""

    factor: float
    offset: float
    runs: int

    def of(self, size: float) -> float:
        return self.factor * size + self.offset


def pairs(place: Path) -> list[tuple[float, float]]:
    """(predicted, measured) bytes of every run record below `place`."""
    found = []
    for path in sorted(islice(_records(place), RECORDS)) if place.is_dir() else [place]:
        try:
            if not path.is_file() or path.stat().st_size > LARGEST:
                continue
            memory = json.loads(path.read_text(encoding="utf-8"))["memory"]
            one = (float(memory["predicted_bytes"]), float(memory["measured_bytes"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if 0 < one[0] < 1e15 and 0 < one[1] < 1e15:
            found.append(one)
    return found


def _records(place: Path) -> Iterator[Path]:
    """Each run.json below; folders that may not be read, or that go meanwhile, have none."""
    for folder, _, files in islice(os.walk(place), FOLDERS):
        if "run.json" in files:
            yield Path(folder, "run.json")


def fit(runs: Iterable[tuple[float, float]]) -> Correction:
    """An offset from one size of job, factor and offset by least squares from several; both within their bounds."""
    runs = list(runs)
    sizes = [predicted for predicted, _ in runs]
    factor = 1.0
    if len(runs) >= 3 and max(sizes) > 1.5 * min(sizes):
        factor = statistics.linear_regression(sizes, [measured for _, measured in runs]).slope
    factor = min(max(factor, FACTORS[0]), FACTORS[1])
    offset = statistics.median(measured - factor * predicted for predicted, measured in runs)
    low, high = (bound * GIB for bound in OFFSETS_GIB)
    return Correction(factor, min(max(offset, low), high), len(runs))


def learn(place: Path) -> Correction:
    """The correction of all run records below `place`."""
    runs = pairs(place)
    if not runs:
        raise UntoldError(f"{place}: no run has a predicted and a measured peak", "leave --calibrate out")
    return fit(runs)


def seen(job: PlannedJob, by: Correction) -> PlannedJob:
    """The job on a card so large that it fits there exactly where it fits on its own when corrected: what is asked of
    other jobs like it (changes, room) then holds for corrected ones."""
    usable = meter.usable(job)
    return replace(job, memory_gib=job.memory_gib + ((usable - by.offset) / by.factor - usable) / GIB)


def apply(plan: LaunchPlan, by: Correction) -> LaunchPlan:
    """The plan with its needs corrected, the verdict given anew, and the correction said."""
    low, high = by.of(plan.low), by.of(plan.high)
    verdict = FITS if high <= plan.usable else NOT if low > plan.usable else UNTOLD
    said = f"corrected by {by.runs} runs here: x {by.factor:.3f} {by.offset / GIB:+.2f} GiB"
    reason = f"{plan.where} needs {low / GIB:.1f} to {high / GIB:.1f} GiB of {plan.usable / GIB:.1f}"
    job = replace(plan.job, assumed=(*plan.job.assumed, said))
    return replace(plan, job=job, low=low, high=high, verdict=verdict, reason=f"{reason}, {said}")

"""A correction of the estimate from recorded runs with a predicted and a measured peak: one factor, one offset.

Both are bounded, shown to the user, and applied only with --calibrate.  A run record has `memory`: {"predicted_bytes":
..., "measured_bytes": ...}; records without it are ignored.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from envcheck.core.errors import UndeterminedError
from envcheck.core.messages import _, ngettext
from launch.memory import GIB, meter
from launch.memory.planned_job import PlannedJob
from launch.planner.verdict import LaunchPlan, judge_need

FACTORS = (0.8, 1.25)
OFFSETS_GIB = (-4.0, 8.0)
MAX_RECORD_BYTES = 8 << 20
RECORDS, FOLDERS = 10_000, 100_000  # a folder of runs has far fewer, but the user may pass /


@dataclass(frozen=True)
class Correction:
    """measured = factor x predicted + offset, from `runs` runs."""

    factor: float
    offset: float
    runs: int

    def apply_to(self, size: float) -> float:
        """Return the corrected size, in bytes like `size`."""
        return self.factor * size + self.offset

    def find_source(self, size: float) -> float:
        """Return the size whose correction is `size`, bytes."""
        return (size - self.offset) / self.factor


def read_peak_pairs(place: Path) -> list[tuple[float, float]]:
    """Return (predicted, measured) bytes of every run record below a folder, or of one record file."""
    pairs = []
    for path in sorted(islice(_find_records(place), RECORDS)) if place.is_dir() else [place]:
        try:
            if not path.is_file() or path.stat().st_size > MAX_RECORD_BYTES:
                continue
            memory = json.loads(path.read_text(encoding="utf-8"))["memory"]
            pair = (float(memory["predicted_bytes"]), float(memory["measured_bytes"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if 0 < pair[0] < 1e15 and 0 < pair[1] < 1e15:
            pairs.append(pair)
    return pairs


def _find_records(place: Path) -> Iterator[Path]:
    """Yield each run.json below; unreadable or vanished folders are skipped."""
    for folder, _unused, files in islice(os.walk(place), FOLDERS):
        if "run.json" in files:
            yield Path(folder, "run.json")


def fit_correction(runs: Iterable[tuple[float, float]]) -> Correction:
    """Return the offset (one job size) or factor and offset by least squares (several sizes), within their bounds."""
    runs = list(runs)
    sizes = [predicted for predicted, _unused in runs]
    factor = 1.0
    if len(runs) >= 3 and max(sizes) > 1.5 * min(sizes):
        factor = statistics.linear_regression(sizes, [measured for _unused, measured in runs]).slope
    factor = min(max(factor, FACTORS[0]), FACTORS[1])
    offset = statistics.median(measured - factor * predicted for predicted, measured in runs)
    low, high = (bound * GIB for bound in OFFSETS_GIB)
    return Correction(factor, min(max(offset, low), high), len(runs))


def learn_correction(place: Path) -> Correction:
    """Return the correction from all run records below `place`; UndeterminedError if there is none."""
    runs = read_peak_pairs(place)
    if not runs:
        raise UndeterminedError(
            _("{place}: no run has both a predicted and a measured memory peak", place=place), _("remove --calibrate")
        )
    return fit_correction(runs)


def adjust_card_size(job: PlannedJob, by: Correction) -> PlannedJob:
    """Return the job with a card size at which it fits exactly if the corrected job fits on the real card.

    Changes and headroom found for the returned job are then valid with the correction.
    """
    usable = meter.usable_bytes(job)
    return replace(job, memory_gib=job.memory_gib + (by.find_source(usable) - usable) / GIB)


def correct_plan(plan: LaunchPlan, by: Correction) -> LaunchPlan:
    """Return the plan with corrected needs, a new verdict, and the correction among its assumptions."""
    low, high = by.apply_to(plan.low), by.apply_to(plan.high)
    interval = by.apply_to(plan.interval[0]), by.apply_to(plan.interval[1])
    verdict = judge_need(plan.job, plan.low, plan.high, by.find_source(plan.usable), plan.spreads)
    note = ngettext(
        "calibrated with {count} run: x {factor:.3f} {offset_gib:+.2f} GiB",
        "calibrated with {count} runs: x {factor:.3f} {offset_gib:+.2f} GiB",
        by.runs,
        factor=by.factor,
        offset_gib=by.offset / GIB,
    )
    reason = _(
        "{where} needs {low_gib:.1f} to {high_gib:.1f} of {usable_gib:.1f} GiB, {correction}",
        where=plan.deciding_label,
        low_gib=interval[0] / GIB,
        high_gib=interval[1] / GIB,
        usable_gib=plan.usable / GIB,
        correction=note,
    )
    job = replace(plan.job, assumed=(*plan.job.assumed, note))
    return replace(plan, job=job, low=low, high=high, interval=interval, verdict=verdict, reason=reason, limit=None)

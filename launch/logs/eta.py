"""Estimate the remaining time of a run from its latest steps.  Pure functions."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from collections.abc import Sequence

Mark = tuple[float, int]  # (time in seconds on any clock, step number)
WINDOW = 50  # latest marks that count: the speed changes with the length of the samples
AT_ONCE_S = 0.05  # steps closer together were read from the log at once and have no speed


def add_mark(marks: deque[Mark], at: float, step: int) -> None:
    """Append a mark; of steps that were read at once only the last is kept."""
    if marks and at - marks[-1][0] < AT_ONCE_S:
        marks.pop()
    marks.append((at, step))


def median_step_s(marks: Sequence[Mark]) -> float | None:
    """Return the median seconds per step, which ignores occasional checkpoints; None without data."""
    each = [seconds / steps for seconds, steps in _list_gaps(marks)]
    return statistics.median(each) if each else None


def remaining_s(marks: Sequence[Mark], of: int | None) -> float | None:
    """Return the remaining seconds, None before the second step or without a known total."""
    gaps = _list_gaps(marks)
    if not gaps or of is None or of < marks[-1][1]:
        return None
    seconds, steps = map(sum, zip(*gaps, strict=True))  # includes checkpoints, which will recur
    return seconds / steps * (of - marks[-1][1])


def _list_gaps(marks: Sequence[Mark]) -> list[tuple[float, int]]:
    """Return (seconds, steps) between consecutive marks, without those that go back after a restart."""
    pairs = itertools.pairwise(marks[-WINDOW:])
    return [(later - sooner, to - at) for (sooner, at), (later, to) in pairs if to > at and later > sooner]

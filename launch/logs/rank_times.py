"""How long the workers of this node take for a step, from their own logs."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable

from launch.logs import eta
from launch.logs.training_step import TrainingStep

FEWEST = 10  # steps of a worker before its time counts


class RankTimes:
    """Collects the steps of each worker by its number on this node."""

    def __init__(self) -> None:
        self._marks: dict[int, deque[eta.Mark]] = {}
        self._logged: dict[int, deque[float]] = {}

    def add_steps(self, rank: int, steps: Iterable[TrainingStep], now: float) -> None:
        """Remember steps that the worker just logged."""
        for step in steps:
            if step.seconds is not None:
                self._logged.setdefault(rank, deque(maxlen=eta.WINDOW)).append(step.seconds)
            if step.step is not None:
                eta.add_mark(self._marks.setdefault(rank, deque(maxlen=eta.WINDOW)), now, step.step)

    def list_step_times(self) -> dict[int, float]:
        """Return the median seconds per step by worker: those that it logs, else those between its log lines."""
        found = {}
        for rank in sorted({*self._marks, *self._logged}):
            logged, marks = self._logged.get(rank, ()), self._marks.get(rank, ())
            if len(logged) >= FEWEST:
                found[rank] = statistics.median(logged)
            elif len(marks) >= FEWEST and (each := eta.median_step_s(tuple(marks))) is not None:
                found[rank] = each
        return found

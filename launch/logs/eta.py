"""How long a run still takes, from when its latest steps came; pure."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from collections.abc import Sequence

Mark = tuple[float, int]  # seconds on one clock, number of the step
WINDOW = 50  # marks that are looked back: speed changes with the length of the data
AT_ONCE_S = 0.05  # steps nearer than that were read in one go, as those of a log of hours: they tell no speed


def marked(marks: deque[Mark], at: float, step: int) -> None:
    """A mark more; of steps that were read in one go the last counts."""
    if marks and at - marks[-1][0] < AT_ONCE_S:
        marks.pop()
    marks.append((at, step))


def step_s(marks: Sequence[Mark]) -> float | None:
    """Seconds for one step: the middle of what the latest took, so that a checkpoint between two does not count."""
    each = [seconds / steps for seconds, steps in _gaps(marks)]
    return statistics.median(each) if each else None


def left_s(marks: Sequence[Mark], of: int | None) -> float | None:
    """None before the second step, and where nobody said how many there are."""
    gaps = _gaps(marks)
    if not gaps or of is None or of < marks[-1][1]:
        return None
    seconds, steps = map(sum, zip(*gaps, strict=True))  # with the checkpoints between: they will come again
    return seconds / steps * (of - marks[-1][1])


def _gaps(marks: Sequence[Mark]) -> list[tuple[float, int]]:
    """(seconds, steps) between marks that follow each other; a restart that goes back in steps is none."""
    pairs = itertools.pairwise(marks[-WINDOW:])
    return [(later - sooner, to - at) for (sooner, at), (later, to) in pairs if to > at and later > sooner]

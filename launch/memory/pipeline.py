"""Micro batches whose activations a pipeline stage holds at the same time."""

from __future__ import annotations


def count_loads_in_flight(stages: int, stage: int, chunks: int, micro_batches: int | None) -> float:
    """Return the micro batches in flight on stage `stage` (from 0): min(P - p, m) for 1F1B.

    With v chunks per stage (2 (P - p - 1) + (v - 1) P + 1)/v (arXiv 2104.04473, figure 4), at most m.
    """
    m = micro_batches or max(stages, 1)
    if stages == 1:
        return 1.0
    if chunks <= 1:
        return float(min(stages - stage, m))
    loads = (2 * (stages - stage - 1) + (chunks - 1) * stages + 1) / chunks
    return min(loads, float(m))

"""Activations kept for the backward pass, in bytes per token; they add up in the order of the modules."""

from __future__ import annotations

from dataclasses import dataclass

C = 2.0  # bytes of a 16-bit element


@dataclass(frozen=True)
class SavedActivations:
    """Bytes per token of one layer.

    `whole`: on every rank, unless sequence parallelism divides it.  `divided`: divided by T.  `fixed`: on every rank.
    `gradient`: peak of the backward pass beyond the kept activations.  Add in the order of the forward pass: the
    activations of later modules are freed before the backward pass of an earlier one.
    """

    whole: float = 0.0
    divided: float = 0.0
    fixed: float = 0.0
    gradient: float = 0.0
    score: float = 0.0

    def __add__(self, other: SavedActivations) -> SavedActivations:
        return SavedActivations(
            self.whole + other.whole,
            self.divided + other.divided,
            self.fixed + other.fixed,
            max(other.gradient, self.gradient - other.kept_bytes),
            self.score + other.score,
        )

    def run_again(self) -> SavedActivations:
        """These activations where the backward pass computes them again from an input that is kept anyway."""
        return SavedActivations(gradient=self.gradient + self.kept_bytes)

    @property
    def kept_bytes(self) -> float:
        """All kept activations without parallelism."""
        return self.whole + self.divided + self.fixed + self.score

    def bytes_on_card(self, tp: int, sequence_parallel: bool) -> float:
        """Return whole (/T with sequence parallelism) + (divided + score)/T + fixed."""
        return self.whole / (tp if sequence_parallel else 1) + (self.divided + self.score) / tp + self.fixed

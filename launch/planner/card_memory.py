"""Total, used and free memory of one card."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CardMemory:
    """`place`: position in the tool's list, from 0; `number`: the tool's number; `taken`: whether the job uses it."""

    place: int
    number: int
    memory_gib: float
    used_gib: float
    taken: bool = True

    @property
    def free_gib(self) -> float:
        """Total minus used memory."""
        return self.memory_gib - self.used_gib

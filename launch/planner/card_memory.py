"""What one card of a machine holds, and what is free on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CardMemory:
    """`place` is that in the tool's list, `number` what the tool calls it, `taken` whether the job would use it."""

    place: int
    number: int
    memory_gib: float
    used_gib: float
    taken: bool = True

    @property
    def free_gib(self) -> float:
        return self.memory_gib - self.used_gib

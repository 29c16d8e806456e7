"""The state of one requirement in a plan: unmet, satisfied, or blocked by an obstacle."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core import errors
from envcheck.core.messages import NOTHING, Message, _


@dataclass(frozen=True)
class UnmetRequirement:
    """The texts of the step that satisfies it; `obstacle` is why that is impossible, "" if it is not, with `remedy`."""

    title: Message
    why: Message
    changes: Message
    undo: Message
    size_mib: int = 0
    obstacle: Message = NOTHING
    remedy: Message = NOTHING

    @property
    def step_words(self) -> tuple[Message, Message, Message, Message]:
        """Return title, reason, changes and undo of the step that satisfies it."""
        return self.title, self.why or self.obstacle, self.changes or _("nothing"), self.undo


@dataclass(frozen=True)
class SatisfiedRequirement:
    """A satisfied requirement, with a message for the plan."""

    words: Message


@dataclass(frozen=True)
class Obstacle:
    """Why the plan cannot be carried out, what to do about it, and the exit code."""

    why: Message
    remedy: Message
    code: int = errors.CHECK_FAILED

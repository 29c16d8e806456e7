"""What a plan says of one thing that it needs: it is to be put in place, it is so already, or it is in the way."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core import errors


@dataclass(frozen=True)
class Need:
    """`obstacle` is why it cannot be begun, "" where it can; `remedy` what a person does about that."""

    title: str
    why: str
    changes: str
    undo: str
    size_mib: int = 0
    obstacle: str = ""
    remedy: str = ""

    @property
    def step_words(self) -> tuple[str, str, str, str]:
        """Title, reason, changes and undo of the step that puts it in place."""
        return self.title, self.why or self.obstacle, self.changes or "nothing", self.undo


@dataclass(frozen=True)
class Satisfied:
    """It is so already; in words."""

    words: str


@dataclass(frozen=True)
class Obstacle:
    """Why nothing can be begun at all, what to do about it, and the exit code."""

    why: str
    remedy: str
    code: int = errors.UNFIT

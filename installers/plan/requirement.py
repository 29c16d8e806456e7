"""What a plan says of one thing that is to be put in place: the words of a Step, before it has a name."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class So:
    """It is so already; in words."""

    words: str

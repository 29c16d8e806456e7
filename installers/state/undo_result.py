"""The result of an undo: whether something was kept is recognized by the template of its message."""

from __future__ import annotations

from envcheck.core.messages import Message, fill, mark

_KEPT = mark("kept: {reason}")


def keep(reason: str) -> Message:
    """Return the result for something that an undo leaves in place."""
    return fill(_KEPT, reason=reason)


def is_kept(result: Message) -> bool:
    """Return whether an undo with this result left something in place."""
    return result.template == _KEPT

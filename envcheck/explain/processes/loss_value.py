"""Whether the loss is a number at the end of a log; pure."""

from __future__ import annotations

import re

LAST = 2  # losses at the end that have to be NaN or infinite: a single one may be a step that was skipped
# A mean over all steps (train_loss) or of an evaluation says nothing about the last steps.
_LOSS = re.compile(
    rb"(?i)(?<![\w-])(?:lm )?loss['\"]?\s{0,3}[:= ]\s{0,3}['\"]?(?:(?P<odd>nan|[-+]?inf(?:inity)?)(?!\w)|-?\d)"
)
# What is left of weights that are NaN: a loss that is exactly zero, and a gradient that is none.
_EMPTY = re.compile(
    rb"(?i)(?<![\w-])loss['\"]?: {0,3}['\"]?0(?:\.0{1,8})?\b(?![.\d]).{0,200}?\bgrad[_ ]norm['\"]?: {0,3}['\"]?nan\b"
)


def ends_without_loss(end: bytes) -> bool:
    """Return whether the last losses in the end of a log are NaN or infinite."""
    losses = [
        found["odd"] or _EMPTY.search(line) for line in end.split(b"\n") for found in list(_LOSS.finditer(line))[-1:]
    ]
    return bool(losses) and all(losses[-LAST:])

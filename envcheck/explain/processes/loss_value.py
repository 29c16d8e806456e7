"""Whether the loss is a number at the end of a log; pure."""

from __future__ import annotations

import re

LAST = 2  # losses at the end that have to be NaN or infinite: a single one may be a step that was skipped
# A mean over all steps (train_loss) or of an evaluation says nothing about the last steps.
_LOSS = re.compile(
    rb"(?i)(?<![\w-])(?:lm )?loss['\"]?\s{0,3}[:= ]\s{0,3}['\"]?(?:(?P<odd>nan|[-+]?inf(?:inity)?)(?!\w)|-?\d)"
)


def ends_without_loss(end: bytes) -> bool:
    """Return whether the last losses in the end of a log are NaN or infinite."""
    losses = [found["odd"] for line in end.split(b"\n") for found in list(_LOSS.finditer(line))[-1:]]
    return bool(losses) and all(losses[-LAST:])

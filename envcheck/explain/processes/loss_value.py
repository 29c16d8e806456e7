"""Whether the loss is a number at the end of a log; pure."""

from __future__ import annotations

import re
from itertools import pairwise

LAST = 2  # losses at the end that have to be NaN or infinite: a single one may be a step that was skipped
RECENT, RETURNS = 20, 3  # of the last losses, NaN that comes back so often between numbers is no skipped step
# A mean over all steps (train_loss) or of an evaluation says nothing about the last steps.
_LOSS = re.compile(
    rb"(?i)(?<![\w-])(?:lm )?loss['\"]?\s{0,3}[:= ]\s{0,3}['\"]?(?:(?P<odd>nan|[-+]?inf(?:inity)?)(?!\w)|-?\d)"
)
# What is left of weights that are NaN: a loss that is exactly zero, and a gradient that is none.
_EMPTY = re.compile(
    rb"(?i)(?<![\w-])loss['\"]?: {0,3}['\"]?0(?:\.0{1,8})?\b(?![.\d]).{0,200}?\bgrad[_ ]norm['\"]?: {0,3}['\"]?nan\b"
)
_NO_GRADIENT = re.compile(rb"(?i)\bgrad[_ ]norm['\"]?: {0,3}['\"]?nan\b")


def ends_without_loss(end: bytes) -> bool:
    """Return whether the last losses in the end of a log are NaN or infinite, again and again or to the end.

    A loss of zero after a gradient that is NaN is the same.
    """
    steps = [(line, found["odd"]) for line in end.split(b"\n") for found in list(_LOSS.finditer(line))[-1:]]
    losses = [odd or _EMPTY.search(line) for line, odd in steps[-LAST:]]
    is_empty = bool(steps) and bool(_EMPTY.search(steps[-1][0]))
    recent = [bool(odd) for _, odd in steps[-RECENT:]]
    if sum(odd and not before for before, odd in pairwise([False, *recent])) >= RETURNS:
        return True
    return bool(losses) and (all(losses) or (is_empty and all(_NO_GRADIENT.search(line) for line, _ in steps[-LAST:])))

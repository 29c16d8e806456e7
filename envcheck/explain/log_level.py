"""Whether a line calls itself a warning, or reports a retry after which its program continues; pure."""

from __future__ import annotations

import re

# A line that calls itself a warning is no cause; NCCL, and Kunlunxin's runtime and BKCL, call their errors so.
_MILD = re.compile(
    r"^(?!.{0,120}(?:NCCL WARN|\[WARN\]\[(?:XPURT|BKCL|XCCL)\]))"
    r".{0,160}?(?:\bWARN(?:ING)?\b|\w{0,40}Warning: |(?:^|[\s:])\[?W\d{4} |\[W(?:\d{3,4})? )"
)
# Nor are messages without a level after which the program continues: retries of the hub and the tracker, TensorFlow
# next to another framework, pip about earlier packages, NumPy about a module that may still load, DeepSpeed's search
# for a compiler.
_TRIED = re.compile(
    r"thrown while requesting (?:HEAD|GET)|Retry attempt failed"
    r"|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [EW] (?:tensorflow|external|\S{0,80}stream_executor|\S{0,20}cuda_)"
    r"|pip's dependency resolver|which is incompatible\.$"
    r"|A module that was compiled using NumPy 1\.x cannot be run|\bnvcc: (?:command )?not found"
)
# A program that found a difference and judged it to be none.
_ACCEPTED = re.compile(
    r"\b(?:since|as|because) .{0,60}\b(?:are|is) compatible\b|\baccepting this (?:combination|version)"
)


def is_note(text: str) -> bool:
    """Return whether the line says that what it found is accepted: it is of no entry."""
    return bool(_ACCEPTED.search(text))


def is_mild(text: str) -> bool:
    """Return whether the line is not a cause, whatever entry it matches."""
    return bool(_MILD.search(text) or _TRIED.search(text))

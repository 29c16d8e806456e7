"""What a line says of itself: that it is a warning, or of a try after which its program goes on; pure."""

from __future__ import annotations

import re

# A line that calls itself a warning is no cause; NCCL calls its errors so.
_MILD = re.compile(
    r"^(?!.{0,120}NCCL WARN).{0,160}?(?:\bWARN(?:ING)?\b|\w{0,40}Warning: |(?:^|[\s:])\[?W\d{4} |\[W(?:\d{3,4})? )"
)
# Nor is what others say without a level and go on: the hub's and the tracker's tries, TensorFlow beside another
# framework, pip about what was there before, NumPy about a module that may still load, DeepSpeed's look for a compiler.
_TRIED = re.compile(
    r"thrown while requesting (?:HEAD|GET)|Retry attempt failed"
    r"|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [EW] (?:tensorflow|external|\S{0,80}stream_executor|\S{0,20}cuda_)"
    r"|pip's dependency resolver|which is incompatible\.$"
    r"|A module that was compiled using NumPy 1\.x cannot be run|\bnvcc: (?:command )?not found"
)


def is_mild(text: str) -> bool:
    """It is no cause, whatever it is of."""
    return bool(_MILD.search(text) or _TRIED.search(text))

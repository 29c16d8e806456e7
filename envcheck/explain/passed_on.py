"""An exception whose message is that of another one, which an import or a remote process passed on; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from envcheck.explain.diagnosis import RaisedException
from envcheck.explain.exceptions import raised_place

# transformers imports its parts late and repeats the message of the import that failed.
_LATE_IMPORT = re.compile(r"^RuntimeError: Failed to import \S{1,160} because of the following error[^:]{0,80}: {0,4}")
# The type of an exception by the beginning of its message.
_TYPES = (
    (re.compile(r"cannot import name '"), "ImportError"),
    (re.compile(r"No module named '"), "ModuleNotFoundError"),
    (re.compile(r"module '[\w.]{1,120}' has no attribute '"), "AttributeError"),
)


def unwrap_exception(raised: RaisedException) -> RaisedException:
    """Return the exception whose message this one repeats, without the frames of the other; otherwise itself."""
    found = _LATE_IMPORT.match(raised.text)
    message = raised.text[found.end() :] if found else ""
    kind = next((kind for pattern, kind in _TYPES if pattern.match(message)), "")
    if not kind:
        return raised
    return replace(raised, text=f"{kind}: {message}", raised_in="", called_from="", frames=(), sources=())


def find_origin(raised: RaisedException, others: Sequence[RaisedException]) -> RaisedException:
    """Return the same exception where it was raised, if these frames only pass it on; otherwise itself."""
    if raised_place.count_own_frames(raised.frames, raised.sources) == len(raised.frames):
        return raised
    same = [one for one in others if one is not raised and one.text == raised.text and one.rank == raised.rank]
    return next(
        (one for one in same if raised_place.count_own_frames(one.frames, one.sources) == len(one.frames) > 0), raised
    )

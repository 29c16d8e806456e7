"""An exception whose message is that of another one, which an import or a remote process passed on; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from envcheck.explain.diagnosis import RaisedException
from envcheck.explain.exceptions import raised_place

# transformers imports its parts late and repeats the message of the import that failed.
_LATE_IMPORT = re.compile(
    r"^(?:RuntimeError|ModuleNotFoundError|ImportError): "
    r"(?:Failed to import \S{1,160} because of the following error[^:]{0,80}: {0,4}){1,4}"
)
# The type of an exception by the beginning of its message.
_TYPES = (
    (re.compile(r"cannot import name '"), "ImportError"),
    (re.compile(r"No module named '"), "ModuleNotFoundError"),
    (re.compile(r"module '[\w.]{1,120}' has no attribute '"), "AttributeError"),
)

# What puts the message of a check, a server or another process into an exception of its own, and its package.
_WRAPPERS = (
    (
        re.compile(
            r"^[\w.]{0,60}ValidationError: 1 validation error for \w{1,80}\s{1,8}(?P<type>Value|Assertion) \w{5,6}, "
            r"(?P<message>.{3,400}?)(?: \[type=\w{3,40},.{0,300})?$"
        ),
        "pydantic",
    ),
    (  # a server's check of a request
        re.compile(
            r"^(?P<type>[\w.]{3,80}): .{0,200}'loc': \((?P<what>[^()]{3,200})\), 'msg': \\?['\"]"
            r"(?P<message>.{3,300}?)\\?['\"], '(?:input|ctx|url)'"
        ),
        "openai",
    ),
    (
        re.compile(
            r"^(?P<type>openai\.\w{3,40}): Error code: \d{3} - \{.{0,120}?'message': (?P<quote>['\"])"
            r"(?P<message>.{3,400}?)(?P=quote)(?:, '|\}).{0,400}$"
        ),
        "openai",
    ),
    (
        re.compile(
            r"^torch\._dynamo\.exc\.TorchRuntimeError: .{0,900}?: got (?P<type>\w{3,40})\((?P<quote>['\"])"
            r"(?P<message>.{3,400}?)(?P=quote)\).{0,900}$"
        ),
        "torch",
    ),
    (
        re.compile(r"^(?P<type>[\w.]{3,80}): \[address=[\w.:]{3,60}, pid=\d{1,9}\] (?P<message>.{3,400})$"),
        "xoscar",
    ),
    (
        re.compile(
            r"^[\w.]{0,60}CompilationError: at \d{1,5}:\d{1,5}:.{0,600}?\b(?P<type>\w{3,40}Error)\((?P<quote>['\"])"
            r"(?P<message>.{3,400}?)(?P=quote)\)"
        ),
        "triton",
    ),
)


def unwrap_exception(raised: RaisedException) -> RaisedException:
    """Return the exception whose message this one repeats, without the frames of the other; otherwise itself."""
    found = _LATE_IMPORT.match(raised.text)
    message = raised.text[found.end() :] if found else ""
    kind = next((kind for pattern, kind in _TYPES if pattern.match(message)), "")
    if not kind:
        return _unwrap_message(raised)
    return replace(raised, text=f"{kind}: {message}", raised_in="", called_from="", frames=(), sources=())


def find_innermost(raised: RaisedException, others: Sequence[RaisedException]) -> RaisedException:
    """Return the exception whose message this one repeats, with its own frames if the log has them."""
    inner = unwrap_exception(find_origin(raised, others))
    if inner.frames or inner.text == raised.text:
        return inner
    return next((one for one in others if one.text == inner.text and one.rank == inner.rank), inner)


def _unwrap_message(raised: RaisedException) -> RaisedException:
    """Return the exception with the message that it wraps, and without the frames of the package that wraps it."""
    whole = f"{raised.text} {raised.details}".strip()
    tries = ((pattern.match(text), package) for pattern, package in _WRAPPERS for text in (raised.text, whole))
    found, package = next(((found, package) for found, package in tries if found), (None, ""))
    if found is None:
        return raised
    kind = f"{found['type']}Error" if package == "pydantic" else found["type"]
    count = len(raised.frames)
    while count > 1 and raised_place.find_package(raised.frames[count - 1]) == package:
        count -= 1
    where = f" ({found['what']})" if "what" in found.groupdict() else ""
    kept = replace(raised, text=f"{kind}: {found['message']}{where}", details="", continuation="")
    return replace(kept, frames=raised.frames[:count], sources=raised.sources[:count])


def find_origin(raised: RaisedException, others: Sequence[RaisedException]) -> RaisedException:
    """Return the same exception where it was raised, if these frames only pass it on; otherwise itself."""
    if raised_place.count_own_frames(raised.frames, raised.sources) == len(raised.frames):
        return raised
    same = [one for one in others if one is not raised and one.text == raised.text and one.rank == raised.rank]
    return next(
        (one for one in same if raised_place.count_own_frames(one.frames, one.sources) == len(one.frames) > 0), raised
    )

"""Exceptions in a log that lacks the head of their traceback: cut off, or printed by a logger; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from envcheck.explain.exceptions.frames import parse_frame, parse_source
from envcheck.explain.exceptions.message_lines import count_wanted, is_message_line, join_continuation, join_details
from envcheck.explain.exceptions.notices import is_handled
from envcheck.explain.processes.line_prefix import drop_count, find_own_text
from envcheck.explain.processes.rank_names import find_prefix_rank

_LAST = re.compile(
    r"^(?:[a-z_][\w.]{0,120}\.)?(?:[A-Z]\w{2,60}(?:Error|Exception|Interrupt)\w{0,30}|Exception)"
    r"(?:: (?P<message>.{3,600})|(?P<colon>:?)\s{0,8}$)"
)
# Exceptions whose own line tells a form more than an entry of lines: names of releases, and figures of the allocator.
_TELLS_FORM = re.compile(
    r"unexpected keyword argument|cannot import name|has no attribute '|required positional arg|HfArgumentParser"
    r"|out of memory\. Tried to allocate"
)
MOST = 12  # frames that are kept
_ASSERTION, _HEAD = "AssertionError", "Traceback (most recent call last)"


@dataclass(frozen=True)
class HeadlessException:
    """Type and text of an exception, its innermost frames (`path:line, in function`), and their source lines.

    `details` are the lines after the first that may belong to its message, `continuation` those that certainly do.
    """

    text: str
    frames: tuple[str, ...]
    sources: tuple[str, ...]
    details: str
    continuation: str
    is_handled: bool  # a line of the same process after it tells that the program will continue
    taken: int  # lines after its own with which the message begins


def read_headless(line: str, before: Sequence[str], after: Sequence[str]) -> HeadlessException | None:
    """Return the exception if the line is one's own line; frames are taken from the lines before it.

    A message that begins on the next lines is taken from the lines after it.
    """
    text = _strip_prefix(line).strip()
    found = _LAST.match(text)
    if found is None:
        return None
    frames, sources = _read_frames([_strip_prefix(one) for one in before])
    if not frames and text == _ASSERTION:
        frames, sources = _read_failed_assertion([_strip_prefix(one) for one in after])
    if not found["message"] and not found["colon"] and not frames:
        return None  # a bare name is no exception unless frames lead to it
    wanted = 2 if found["colon"] else count_wanted(text)
    following = [own.rstrip() for own in map(_strip_prefix, after) if own.strip()]
    text = " ".join((text.rstrip(), *(line.strip() for line in following[:wanted])))
    more = list(takewhile(is_message_line, following[wanted:]))
    return HeadlessException(
        text[:600],
        tuple(frames[-MOST:]),
        tuple(sources[-MOST:]),
        join_details(more),
        join_continuation(text, more),
        any(is_handled(one) for one in after if find_prefix_rank(one) == find_prefix_rank(line)),
        len(following[:wanted]),
    )


def _read_failed_assertion(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Frames after a bare AssertionError: where processes write at once, its line may come before its traceback's end.

    They belong to it if the last source line is an assertion.
    """
    frames, sources = _read_frames(list(takewhile(lambda line: _HEAD not in line, lines)))
    return (frames, sources) if sources and sources[-1].startswith("assert ") else ([], [])


def may_tell_form(text: str) -> bool:
    """Return whether the exception's own line may tell its form, without frames."""
    return bool(_TELLS_FORM.search(text))


def _strip_prefix(line: str) -> str:
    line = drop_count(line)
    own = find_own_text(line)
    return line if own is None else own


def _read_frames(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Frames as `path:line, in function`, and their source lines."""
    frames: list[str] = []
    sources: list[str] = []
    for text in lines:
        if frame := parse_frame(text):
            frames.append(frame)
            sources.append("")
        elif frames and not sources[-1]:
            sources[-1] = parse_source(text)
    return frames, sources

"""Exceptions in a log that lacks the head of their traceback: cut off, or printed by a logger; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.explain.processes.line_prefix import find_own_text

_LAST = re.compile(
    r"^(?:[a-z_][\w.]{0,120}\.)?(?:[A-Z]\w{2,60}(?:Error|Exception|Interrupt)\w{0,30}|Exception)"
    r"(?:: (?P<message>.{3,600})|(?P<colon>:?)\s{0,8}$)"
)
_FRAME = re.compile(r'^\s{0,40}File "([^"]{1,400})", line (\d{1,9}), in (\S{1,200})')
MOST = 12  # frames that are kept


@dataclass(frozen=True)
class HeadlessException:
    """Type and text of an exception, its innermost frames (`path:line, in function`), and their source lines."""

    text: str
    frames: tuple[str, ...]
    sources: tuple[str, ...]


def read_headless(line: str, before: Sequence[str], after: Sequence[str]) -> HeadlessException | None:
    """Return the exception if the line is one's own line; frames are taken from the lines before it.

    A message that begins on the next lines is taken from the lines after it.
    """
    text = _strip_prefix(line).strip()
    found = _LAST.match(text)
    if found is None:
        return None
    frames, sources = _read_frames([_strip_prefix(one) for one in before])
    if not found["message"] and not found["colon"] and not frames:
        return None  # a bare name is no exception unless frames lead to it
    if found["colon"]:
        more = [own.strip() for own in map(_strip_prefix, after) if own.strip()][:2]
        text = " ".join((text.rstrip(), *more))
    return HeadlessException(text[:600], tuple(frames[-MOST:]), tuple(sources[-MOST:]))


def _strip_prefix(line: str) -> str:
    own = find_own_text(line)
    return line if own is None else own


def _read_frames(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Frames as `path:line, in function`, and their source lines."""
    frames: list[str] = []
    sources: list[str] = []
    for text in lines:
        if found := _FRAME.match(text):
            frames.append(f"{found[1]}:{found[2]}, in {found[3]}")
            sources.append("")
        elif frames and not sources[-1] and text.strip() and text.strip()[0] not in "^~+|":
            sources[-1] = text.strip()[:200]
    return frames, sources

"""The lines after an exception's own line that belong to its message; pure."""

from __future__ import annotations

import re

from envcheck.explain.processes.line_prefix import find_own_text

DETAIL_LINES = 6  # lines after the exception's own line that may belong to its message, empty ones included
DETAIL = 400  # characters of them that are kept
_VALIDATION = re.compile(r"\d validation errors? for ")  # field and fault follow, one a line
# What follows an exception and is no part of its message: another traceback, a bar, a shell's prompt, a logger's line.
_NO_DETAIL = re.compile(
    r"Traceback \(most|^(?:During handling of|The above exception)|^\s{0,40}File \"|\d%\|"
    r"|^[\w.-]{1,40}@[\w.-]{1,60}[:~ ]|^[IWEF]\d{4} "
    r"|^(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b|^[-=*#+╭╰]{3}|^\$ "
)


def is_message_line(text: str) -> bool:
    """Return whether a line after an exception may belong to its message."""
    return not _NO_DETAIL.search(text) and find_own_text(text) is None


def count_wanted(headline: str) -> int:
    """Return how many of the next lines are needed for the message to begin: none, one or two."""
    if _VALIDATION.search(headline):
        return 2
    return int(headline.rstrip().endswith(":"))


def join_details(lines: list[str]) -> str:
    """Return the lines of a message as one text."""
    return " ".join(lines)[:DETAIL]

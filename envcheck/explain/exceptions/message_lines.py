"""The lines after an exception's own line that belong to its message; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from envcheck.explain.processes.line_prefix import find_own_text

DETAIL_LINES = 6  # lines after the exception's own line that may belong to its message, empty ones included
DETAIL = 400  # characters of them that are kept
_VALIDATION = re.compile(r"\d validation errors? for ")  # field and fault follow, one a line
# What follows an exception and is no part of its message: another traceback, a bar, a shell's prompt, a logger's line.
_NO_DETAIL = re.compile(
    r"Traceback \(most|^(?:During handling of|The above exception)|^\s{0,40}File \"|\d%\|"
    r"|^[\w.-]{1,40}@[\w.-]{1,60}[:~ ]|^[IWEF]\d{4} "
    r"|^Set the environment variable \w{3,60}=\S{1,20} for |^Set TORCH\w{3,40}=\S{1,20} for "
    r"|^(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b|^[-=*#+╭╰]{3}|^\$ "
)
# TorchNPU ends the message of each exception so: [ERROR] 2026-01-05-10:11:12 (PID:1, Device:0, RankID:0) ERR99999 ...
_RUNTIME_REPORT = re.compile(r"^\[ERROR\] 20\d\d-\d\d-\d\d-[\d:]{8} \(PID:\d{1,9}, Device:")


def is_runtime_report(text: str) -> bool:
    """Return whether a line after an exception is the runtime's report of the same exception, with its time."""
    return bool(_RUNTIME_REPORT.match(text))


def is_message_line(text: str) -> bool:
    """Return whether a line after an exception may belong to its message."""
    return not _NO_DETAIL.search(text) and find_own_text(text) is None


def count_wanted(headline: str) -> int:
    """Return how many of the next lines are needed for the message to begin: none, one or two."""
    if _VALIDATION.search(headline):
        return 2
    return int(headline.rstrip().endswith(":"))


def join_details(lines: Sequence[str]) -> str:
    """Return the lines of a message as one text."""
    return " ".join(line.strip() for line in lines)[:DETAIL]


def join_continuation(headline: str, lines: Sequence[str]) -> str:
    """Return, of the lines after a complete headline, those that certainly belong to its message.

    These are the indented ones. A validation error also has the name of each field, above its indented fault.
    """
    by_field = bool(_VALIDATION.search(headline))
    return join_details(list(_read_continuation(lines, by_field)))


def _read_continuation(lines: Sequence[str], by_field: bool) -> Iterator[str]:
    for line, following in pairwise([*lines, ""]):
        if not (_is_indented(line) or (by_field and _is_indented(following))):
            return
        yield line


def _is_indented(line: str) -> bool:
    return line[:1] in (" ", "\t")

"""Lines of one kind differ in figures only, and in no figure that is a code: they say the same; pure."""

from __future__ import annotations

import re

from envcheck.explain.prefilter import DIGITS

WINDOW = 2048  # bytes of a line in which codes are sought
# Figures that tell two lines apart: codes of CANN, CUDA, DCMI, exit statuses.  All others do not.
_CODES = re.compile(
    rb"(?<![A-Za-z0-9])(?:E[A-Z1-9]\d{4}|ERR\d{5}|[1-5]\d{5}|-8\d{3})(?!\d)"
    rb"|(?i:(?:code|status|signal|error|xid|ret|errno)[^\d\n]{1,16}-?\d{1,6})"
)


def codes(line: bytes) -> bytes:
    return b" ".join(_CODES.findall(line[:WINDOW])[:8])


def kind(line: bytes) -> int:
    """The same in this process and those that are forked from it."""
    return hash((line.translate(None, DIGITS), codes(line)))

"""Lines of one kind differ only in figures that are not codes: they report the same; pure."""

from __future__ import annotations

import re

from envcheck.explain.prefilter import DIGITS

WINDOW = 2048  # bytes of a line that are searched for codes
# Figures that distinguish two lines: codes of CANN, CUDA and DCMI, exit statuses.  All others do not.
_CODES = re.compile(
    rb"(?<![A-Za-z0-9])(?:E[A-Z1-9]\d{4}|ERR\d{5}|[1-5]\d{5}|-8\d{3})(?!\d)"
    rb"|(?i:(?:code|status|signal|error|xid|ret|errno)[^\d\n]{1,16}-?\d{1,6})"
)


def extract_codes(line: bytes) -> bytes:
    return b" ".join(_CODES.findall(line[:WINDOW])[:8])


def compute_kind(line: bytes) -> int:
    """Return a hash of the line's kind, equal in this process and its forks."""
    return hash((line.translate(None, DIGITS), extract_codes(line)))

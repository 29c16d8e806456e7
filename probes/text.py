"""Cleaning what people paste, and the vendors' many words for nothing; one place each."""

from __future__ import annotations

import re

INPUT_LIMIT = 32 << 20  # characters read of one text
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_NOTHING = {"", "-", "--", "na", "n/a", "[n/a]", "none", "err!", "not supported", "[not supported]", "unknown error"}


def plain(text: str) -> str:
    """Without terminal escapes, carriage returns and NULs."""
    return _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def said(cell: str | None) -> str | None:
    """The cell's text, or None for the vendors' words for nothing."""
    return None if cell is None or cell.strip().lower() in _NOTHING else cell.strip()


def number(cell: str | None) -> float | None:
    """The leading number of '101.8 W', '35C', '64MiB'; None where none leads."""
    found = re.match(r"\s*(-?\d+(?:\.\d+)?)", cell or "")
    return float(found[1]) if found else None


def whole(cell: str | None) -> int | None:
    """As `number`, as an int."""
    value = number(cell)
    return None if value is None else int(value)

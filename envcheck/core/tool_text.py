"""Terminal escapes in the output of tools, and the vendors' many spellings of an empty value."""

from __future__ import annotations

import functools
import re

INPUT_LIMIT = 32 << 20  # characters read of one text
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_LEADING = re.compile(r"\s*(-?\d+(?:\.\d+)?)")
_EXACT = 15  # digits that a float holds exactly
_NOTHING = {"", "-", "--", "na", "n/a", "[n/a]", "none", "err!", "not supported", "[not supported]", "unknown error"}


def strip_escapes(text: str) -> str:
    """Return the text without terminal escapes, carriage returns and NULs."""
    text = _ESCAPES.sub("", text) if "\x1b" in text else text
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def cell_text(cell: str | None) -> str | None:
    """Return the cell's text, or None for the vendors' spellings of an empty value."""
    return None if cell is None or cell.strip().lower() in _NOTHING else cell.strip()


@functools.lru_cache(maxsize=4096)  # tables of a watch log have many equal cells
def parse_number(cell: str | None) -> float | None:
    """Return the leading number of '101.8 W', '35C', '64MiB'; None without one."""
    found = _LEADING.match(cell or "")
    return float(found[1]) if found else None


@functools.lru_cache(maxsize=4096)
def parse_whole_number(cell: str | None) -> int | None:
    """Return the leading number like `parse_number`, as an int."""
    digits = (cell or "").strip()
    if len(digits) <= _EXACT and digits.isascii() and digits.isdigit():
        return int(digits)  # most cells are plain digits
    value = parse_number(cell)
    return None if value is None or value in (float("inf"), float("-inf")) else int(value)


LINE_LIMIT = 4096  # characters kept of one line: no tool prints a longer one, and patterns stay cheap

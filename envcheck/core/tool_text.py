"""Cleaning of pasted tool output, and the vendors' many spellings of an empty value."""

from __future__ import annotations

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


def parse_number(cell: str | None) -> float | None:
    """Return the leading number of '101.8 W', '35C', '64MiB'; None without one."""
    found = _LEADING.match(cell or "")
    return float(found[1]) if found else None


def parse_whole_number(cell: str | None) -> int | None:
    """Return the leading number like `parse_number`, as an int."""
    digits = (cell or "").strip()
    if len(digits) <= _EXACT and digits.isascii() and digits.isdigit():
        return int(digits)  # most cells are plain digits
    value = parse_number(cell)
    return None if value is None or value in (float("inf"), float("-inf")) else int(value)


LINE_LIMIT = 4096  # characters kept of one line: no tool prints a longer one, and patterns stay cheap
_LOOKALIKES = str.maketrans("│┃║｜─━┄┅═┼┌┐└┘├┤┬┴╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╪：\u00a0\u3000", "||||----=" + "+" * 25 + ":  ")
_LOST_ESCAPES = re.compile(
    r"(?:(?:\^\[|\u241b)\[|\[(?=\d))(?:\d{1,3}(?:;\d{1,3}){0,4})?m|\[m(?!\w)"
)  # not "[ms]", a unit
_QUOTES = re.compile(r"(?m)^[ \t]*>(?:[ \t]?>)*[ \t]?")


def clean_paste(text: str, line_limit: int = LINE_LIMIT) -> str:
    """Return the tool's output from pasted text.

    Removes escapes (also those without their first character), `> ` quotes and page marks; box-drawing characters and
    full-width signs become the ASCII that the tools print.  Line breaks are kept; over-long lines are cut.
    """
    text = strip_escapes(text[:INPUT_LIMIT])
    if "[" in text or "\u241b" in text:
        text = _LOST_ESCAPES.sub("", text)
    if not text.isascii():
        text = text.translate(_LOOKALIKES).replace("\ufeff", "")
    text = text.replace("\x0c", "\n").replace("&gt;", ">").replace("&nbsp;", " ")
    if ">" in text:
        text = _QUOTES.sub("", text)
    lines = text.split("\n")
    return text if max(map(len, lines)) <= line_limit else "\n".join(line[:line_limit] for line in lines)


# Prefixes that logs add to every line (a time, a container or pod name, a number), and how many lines must have one.
_STAMPS = tuple(
    (re.compile(stamp), least)
    for stamp, least in (
        (r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]?", 1),
        (r"[\w.-]{1,60}[ \t]+\|[ \t]?", 2),
        (r"\[[\w./-]{1,120}\][ \t]", 2),
        (r"[ ]*\d{1,6}\t", 2),
    )
)


def strip_log_stamps(lines: list[str]) -> list[str]:
    """Return the lines without their log prefix, if all of the first hundred lines have it."""
    sample = [line for line in lines[:200] if line.strip()][:100]
    for stamp, least in _STAMPS:
        if len(sample) >= least and all(map(stamp.match, sample)):
            return [stamp.sub("", line, count=1) for line in lines]
    return lines

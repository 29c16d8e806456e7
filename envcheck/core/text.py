"""Cleaning what people paste, and the vendors' many words for nothing; one place each."""

from __future__ import annotations

import re

INPUT_LIMIT = 32 << 20  # characters read of one text
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_LEADING = re.compile(r"\s*(-?\d+(?:\.\d+)?)")
_EXACT = 15  # digits that a float holds exactly
_NOTHING = {"", "-", "--", "na", "n/a", "[n/a]", "none", "err!", "not supported", "[not supported]", "unknown error"}


def plain(text: str) -> str:
    """Without terminal escapes, carriage returns and NULs."""
    text = _ESCAPES.sub("", text) if "\x1b" in text else text
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def said(cell: str | None) -> str | None:
    """The cell's text, or None for the vendors' words for nothing."""
    return None if cell is None or cell.strip().lower() in _NOTHING else cell.strip()


def number(cell: str | None) -> float | None:
    """The leading number of '101.8 W', '35C', '64MiB'; None where none leads."""
    found = _LEADING.match(cell or "")
    return float(found[1]) if found else None


def whole(cell: str | None) -> int | None:
    """As `number`, as an int."""
    digits = (cell or "").strip()
    if len(digits) <= _EXACT and digits.isascii() and digits.isdigit():
        return int(digits)  # most cells are no more than that
    value = number(cell)
    return None if value is None or value in (float("inf"), float("-inf")) else int(value)


LINE_LIMIT = 4096  # characters kept of one line: no tool prints a longer one, and patterns stay cheap
_LOOKALIKES = str.maketrans("│┃║｜─━┄┅═┼┌┐└┘├┤┬┴╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╪：\u00a0\u3000", "||||----=" + "+" * 25 + ":  ")
_LOST_ESCAPES = re.compile(
    r"(?:(?:\^\[|\u241b)\[|\[(?=\d))(?:\d{1,3}(?:;\d{1,3}){0,4})?m|\[m(?!\w)"
)  # not "[ms]", a unit
_QUOTES = re.compile(r"(?m)^[ \t]*>(?:[ \t]?>)*[ \t]?")


def clean(text: str, line_limit: int = LINE_LIMIT) -> str:
    """What the tool printed, out of what somebody pasted.

    Without escapes (also those whose first character got lost), `> ` quotes and page marks; box-drawing characters and
    full-width signs become the ASCII that the tools print.  Lines stay lines; over-long ones are cut.
    """
    text = plain(text[:INPUT_LIMIT])
    if "[" in text or "\u241b" in text:
        text = _LOST_ESCAPES.sub("", text)
    if not text.isascii():
        text = text.translate(_LOOKALIKES).replace("\ufeff", "")
    text = text.replace("\x0c", "\n").replace("&gt;", ">").replace("&nbsp;", " ")
    if ">" in text:
        text = _QUOTES.sub("", text)
    lines = text.split("\n")
    return text if max(map(len, lines)) <= line_limit else "\n".join(line[:line_limit] for line in lines)


# What logs put before every line, and how many lines must bear it: a time; a container's or a pod's name; a number.
_STAMPS = tuple(
    (re.compile(stamp), least)
    for stamp, least in (
        (r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]?", 1),
        (r"[\w.-]{1,60}[ \t]+\|[ \t]?", 2),
        (r"\[[\w./-]{1,120}\][ \t]", 2),
        (r"[ ]*\d{1,6}\t", 2),
    )
)


def unstamped(lines: list[str]) -> list[str]:
    """Without what a log puts before its lines, if all of the first hundred bear it."""
    sample = [line for line in lines[:200] if line.strip()][:100]
    for stamp, least in _STAMPS:
        if len(sample) >= least and all(map(stamp.match, sample)):
            return [stamp.sub("", line, count=1) for line in lines]
    return lines

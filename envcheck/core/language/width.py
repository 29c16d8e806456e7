"""Text in columns of a terminal, where a Chinese character takes two and a line may end behind any."""

from __future__ import annotations

import functools
import re
import textwrap
import unicodedata
from collections.abc import Iterator

CLOSING = "，。；：！？、）》”』」】"  # no line begins with one
OPENING = "（《“『「【"  # and none ends with one of these
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f"


def tidy(text: str) -> str:
    """Words of both scripts put together: blanks stand beside Latin letters alone."""
    return text if text.isascii() else _loose().sub("", text)


def columns(text: str) -> int:
    """How wide the text is: wide and full-width characters are two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(c: str) -> int:
    return 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """As textwrap's, with what the first and the other lines begin with; a word that is too long has its own line."""
    if not any(unicodedata.east_asian_width(c) in "WF" for c in text):
        return textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        )
    return list(_lines(_word().findall(" ".join(text.split())), width, first, rest))


def _lines(words: list[str], width: int, first: str, rest: str) -> Iterator[str]:
    line, empty = first, True
    for word in words:
        if word.isspace():
            line += "" if empty else " "
            continue
        if not empty and columns(line) + columns(word) > width:
            yield line.rstrip()
            line, empty = rest, True
        line, empty = line + word, False
    if not empty:
        yield line.rstrip()


@functools.cache
def _word() -> re.Pattern[str]:
    """Made for Chinese text alone: it takes 4 ms."""
    each = rf"(?:[{_WIDE}]|[^\s{_WIDE}{OPENING}{CLOSING}]+|(?=[{CLOSING}]))"
    return re.compile(rf"\s+|[{OPENING}]*{each}[{CLOSING}]*|\S")


@functools.cache
def _loose() -> re.Pattern[str]:
    """Blanks that are too many: full-width marks have their own room, and Chinese characters stand together."""
    return re.compile(r"(?<=[，；。：（）]) | (?=[，；。：（）])|(?<=[一-鿿]) (?=[一-鿿])")

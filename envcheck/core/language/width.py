"""Text in terminal columns: a Chinese character takes two, and a line can end after any of them."""

from __future__ import annotations

import functools
import re
import textwrap
import unicodedata
from collections.abc import Iterator

CLOSING = "，。；：！？、）》”』」】"  # a line must not start with one of these
OPENING = "（《“『「【"  # a line must not end with one of these
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f"


def remove_extra_blanks(text: str) -> str:
    """Return the text without blanks between Chinese characters; blanks next to Latin letters are kept."""
    return text if text.isascii() else _extra_blank_pattern().sub("", text)


def display_width(text: str) -> int:
    """Return the width in columns: wide and full-width characters are two, combining ones zero."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(c: str) -> int:
    return 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1


def wrap_text(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap text like textwrap; `first` and `rest` are the prefixes of the lines.  A word that is too long gets its own
    line."""
    if not any(unicodedata.east_asian_width(c) in "WF" for c in text):
        return textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        )
    return list(_fill_lines(_word_pattern().findall(re.sub(r"\s", " ", text.strip())), width, first, rest))


def _fill_lines(words: list[str], width: int, first: str, rest: str) -> Iterator[str]:
    line, blanks, empty = first, "", True
    for word in words:
        if word.isspace():
            blanks = "" if empty else word
            continue
        if not empty and display_width(line + blanks + word) > width:
            yield line.rstrip()
            line, blanks = rest, ""
        line, blanks, empty = line + blanks + word, "", False
    if not empty:
        yield line.rstrip()


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern for Chinese text; compiled only if needed, because it takes 4 ms."""
    each = rf"(?:[(\[]?[{_WIDE}][\])]?|[^\s{_WIDE}{OPENING}{CLOSING}]+|(?=[{CLOSING}]))"
    return re.compile(rf"\s+|[{OPENING}]*{each}[{CLOSING}]*|\S")


@functools.cache
def _extra_blank_pattern() -> re.Pattern[str]:
    """Return the pattern of surplus blanks: after full-width punctuation and between Chinese characters."""
    return re.compile(r"(?<=[，；。：（）]) | (?=[，；。：（）])|(?<=[一-鿿]) (?=[一-鿿])")

"""What must stand in a text for a pattern to be found in it: plain words, which are sought before the pattern is.

A pattern costs a microsecond for every few characters; whether a word stands in them costs next to nothing.  Each digit
is 0 here: that figures stand in a row tells much, also where a pattern leaves open which.  The long s and the dotless i
are s and i to a pattern of whatever case; here they are not.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

# The standard library's own parser of patterns; before Python 3.11 it had another name.
_parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
MOST = 24  # words of one set: more cost as much as the pattern
_DIGIT = re.compile(r"\d")
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)


def zeros(low: str) -> str:
    """The text with 0 for each digit."""
    return low.encode("ascii").translate(_ZEROS).decode("ascii") if low.isascii() else _DIGIT.sub("0", low)


def may(pattern: re.Pattern[str], low: str) -> bool:
    """Whether the pattern, of whatever case, can be found in a text; `low` is that text, lower case and with zeros."""
    for some in needles(pattern):
        for word in some:  # any() and all() would cost three times as much as the words
            if word in low:
                break
        else:
            return False
    return True


@functools.cache
def needles(pattern: re.Pattern[str]) -> tuple[frozenset[str], ...]:
    """Sets of words in lower case, rare ones first: of each, one stands in every text in which the pattern is found."""
    found = {some for some in _of(_parser.parse(pattern.pattern, pattern.flags)) if len(some) <= MOST}
    return tuple(sorted(found, key=rarity, reverse=True))


def rarity(some: frozenset[str]) -> tuple[int, int]:
    """Long words, figures and few of them are rare in what people write."""
    return min(len(word) + word.count("0") for word in some), -len(some)


def _of(parts: Iterable[Any]) -> Iterator[frozenset[str]]:
    """Of parts that stand one after the other: each row of plain characters, and what groups have."""
    row = ""
    for kind, said in parts:
        plain, ends = _plain(str(kind), said)
        row += plain
        if ends:
            yield from _words(row)
            row = ""
            yield from _inside(str(kind), said)
    yield from _words(row)


def _plain(kind: str, said: Any) -> tuple[str, bool]:
    """The characters that a part is for certain, and whether what follows may not stand next to them."""
    if kind == "LITERAL":
        return zeros(chr(said).lower()), False
    if kind == "IN" and all(_is_digit(str(of), which) for of, which in said):
        return "0", False
    if kind in ("MAX_REPEAT", "MIN_REPEAT") and len(said[-1]) == 1:
        plain, ends = _plain(*_named(said[-1][0]))
        return plain * said[0], ends or said[0] != said[1]
    return "", kind != "AT"  # which is a place, no character: \b does not part a word


def _named(part: Any) -> tuple[str, Any]:
    return str(part[0]), part[1]


def _is_digit(kind: str, said: Any) -> bool:
    if kind == "RANGE":
        return bool(said[0] >= 48 and said[1] <= 57)
    return (kind == "LITERAL" and 48 <= said <= 57) or (kind == "CATEGORY" and str(said) == "CATEGORY_DIGIT")


def _words(row: str) -> Iterator[frozenset[str]]:
    if row.strip():
        yield frozenset((row,))


def _inside(kind: str, said: Any) -> Iterator[frozenset[str]]:
    """Of one part that holds others; of all that is not known, nothing."""
    if kind == "SUBPATTERN" or (kind in ("MAX_REPEAT", "MIN_REPEAT") and said[0] > 0):
        yield from _of(said[-1])
    elif kind == "BRANCH":
        ways = [max(_of(way), key=rarity, default=None) for way in said[1]]
        if None not in ways:
            yield frozenset().union(*(way for way in ways if way))

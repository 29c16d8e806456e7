"""What must stand in a text for a pattern to be found in it: plain words, which are sought before the pattern is.

A pattern costs a microsecond for every few characters; whether a word stands in them costs next to nothing.  The long s
and the i without a dot are s and i to a pattern of whatever case; here they are not.
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


def may(pattern: re.Pattern[str], low: str) -> bool:
    """Whether the pattern, of whatever case, can be found in a text; `low` is that text in lower case."""
    return all(any(word in low for word in some) for some in needles(pattern))


@functools.cache
def needles(pattern: re.Pattern[str]) -> tuple[frozenset[str], ...]:
    """Sets of words in lower case, rare ones first: of each, one stands in every text in which the pattern is found."""
    found = {some for some in _of(_parser.parse(pattern.pattern, pattern.flags)) if len(some) <= MOST}
    return tuple(sorted(found, key=_telling, reverse=True))


def _of(parts: Iterable[Any]) -> Iterator[frozenset[str]]:
    """Of parts that stand one after the other: each row of plain characters, and what groups have."""
    row = ""
    for kind, said in parts:
        if str(kind) == "LITERAL":
            row += chr(said).lower()
        elif str(kind) != "AT":  # which is a place, no character: \b does not part a word
            yield from _words(row)
            row = ""
            yield from _inside(str(kind), said)
    yield from _words(row)


def _words(row: str) -> Iterator[frozenset[str]]:
    if row.strip():
        yield frozenset((row,))


def _inside(kind: str, said: Any) -> Iterator[frozenset[str]]:
    """Of one part that holds others; of all that is not known, nothing."""
    if kind == "SUBPATTERN" or (kind in ("MAX_REPEAT", "MIN_REPEAT") and said[0] > 0):
        yield from _of(said[-1])
    elif kind == "BRANCH":
        ways = [max(_of(way), key=_telling, default=None) for way in said[1]]
        if None not in ways:
            yield frozenset().union(*(way for way in ways if way))


def _telling(some: frozenset[str]) -> tuple[int, int]:
    """Long words, and few of them, are rare."""
    return min(map(len, some)), -len(some)

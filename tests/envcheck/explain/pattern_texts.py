"""Texts that a pattern is found in, made from the pattern itself: each way through its alternatives, kept short."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from typing import Any

# The standard library's own parser of patterns; before Python 3.11 it had another name.
_parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_SOME = " xa1A_-.:/'~"  # what stands for a class of characters, where it takes one of these
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w", "NOT_DIGIT": r"\D", "NOT_SPACE": r"\S", "NOT_WORD": r"\W"}


def make_texts(pattern: re.Pattern[str], before: str) -> list[str]:
    """Return texts that match, with prefixes if the pattern allows them, and a word after them."""
    made = _make_combinations(_parser.parse(pattern.pattern, pattern.flags))
    around = (before + "{} here", before + "{}here", "{} here")
    lines = ([line.format(text) for line in around] for text in made)
    found = (next(filter(pattern.search, each), None) for each in lines)
    return list(filter(None, found))


def _make_combinations(parts: Iterable[Any]) -> list[str]:
    """The first way of each part, then every other one among the first of the others."""
    ways = [_make_alternatives(str(kind), said) for kind, said in parts]
    first = [way[0] for way in ways]
    others = ([*first[:at], text, *first[at + 1 :]] for at, way in enumerate(ways) for text in way[1:])
    return list(dict.fromkeys("".join(each) for each in (first, *others)))


def _make_alternatives(kind: str, said: Any) -> list[str]:
    if kind == "LITERAL":
        return [chr(said)]
    if kind == "ANY":
        return ["'"]  # couldn.t
    if kind == "NOT_LITERAL":
        return ["x" if said != ord("x") else "y"]
    if kind == "IN":
        return [_pick_character(said)]
    if kind == "SUBPATTERN":
        return _make_combinations(said[-1])
    if kind == "BRANCH":
        return [text for way in said[1] for text in _make_combinations(way)] or [""]
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        least, _, part = said
        return ([""] if not least else []) + [text * max(least, 1) for text in _make_combinations(part)]
    return [""]  # places and what stands around: the search afterwards tells


def _pick_character(items: Any) -> str:
    wanted = str(items[0][0]) != "NEGATE"
    found = (char for char in _SOME if any(_accepts_character(str(kind), said, char) for kind, said in items) == wanted)
    named = (chr(said if str(kind) == "LITERAL" else said[0]) for kind, said in items if str(kind) != "CATEGORY")
    return next(found, None) or next(named, "~")


def _accepts_character(kind: str, said: Any, char: str) -> bool:
    if kind == "LITERAL":
        return bool(said == ord(char))
    if kind == "RANGE":
        return bool(said[0] <= ord(char) <= said[1])
    return kind == "CATEGORY" and bool(re.match(_CATEGORIES[str(said).removeprefix("CATEGORY_")], char))

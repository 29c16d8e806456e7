"""Prefixes that launchers, loggers and job systems put before a program's own text; pure."""

from __future__ import annotations

import re

# Ranks, times, levels, names of pods, units and programs, steps of BuildKit.
_AHEAD = re.compile(
    r"(?:(?:\[[\w.:/ ,+-]{1,60}\]|\[pod/[\w./-]{1,200}\]|\([\w =.:,-]{1,60}\)|[\w.-]{1,60} {1,8}\||\|"
    r"|(?:#\d{1,4} )?\d{1,5}\.\d{1,3}(?= \S)|(?:stdout|stderr) [FP]\b"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,12}(?:Z|[+-]\d\d:?\d\d)?|\d\d-\d\d \d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?: [\w.-]{1,60} [\w./-]{1,40}(?:\[\d{1,8}\])?:)?"
    r"|(?:INFO|ERROR|CRITICAL)\b|(?:^ {1,4})?\d{1,5}:)[:,-]? {0,8}){1,6}"
)
# Ray prints a line of many workers once: `KeyError: 'x' [repeated 43x across cluster]`.
_COUNTED = re.compile(r" {1,4}\[repeated \d{1,9}x across (?:the )?cluster\].{0,200}$")


def drop_count(line: str) -> str:
    """Return the line without Ray's count of the workers that print it."""
    return _COUNTED.sub("", line) if "[repeated " in line else line


def find_own_text(line: str) -> str | None:
    """Return the line without its prefixes; None if it has none."""
    found = _AHEAD.match(line)
    return line[found.end() :] if found else None

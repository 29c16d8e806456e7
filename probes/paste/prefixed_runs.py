"""Finds the prefix of lines that stand alone in a text with other lines, where an output begins behind it.

node1: No devices were found          a message of a host
0: No devices were found              of a task
> | NVIDIA-SMI 535 ...                a quoted output among others, as far as the lines have the prefix

What is behind a prefix decides: without an output there, the line is content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from probes.paste.line_decorations import PREFIX_PARTS, TIME

_MOST_PARTS = 4
_HOST = re.compile(
    r"[ \t]{0,8}(?:\[\d{1,5},\d{1,5}\]<std(?:out|err)>:|<?(?P<name>[A-Za-z][\w.-]{1,62})>?:(?=\s)"
    r"|(?P<address>\d{1,3}(?:\.\d{1,3}){3}):(?=\s)|(?P<task>\d{1,5}):(?=\s))[ \t]?"
)
_OTHER = re.compile(
    rf"[ \t]{{0,80}}(?:{PREFIX_PARTS}|>(?:[ \t]?>){{0,8}}|['\"]|#{{1,3}}(?=\s)|//|;|\+(?=[^-=+])|\*(?=\s)"
    r"|\d{1,6}(?=[\t|]|  ))[ \t]?"
)
_TIME = re.compile(rf"[ \t]{{0,80}}{TIME}[ \t]?")
_MAY_HAVE_PREFIX = re.compile(
    r"[ \t]{0,80}(?:[^\w\s|]|\d|\w[\w.-]{0,62}>?(?::\s| {0,6}\|| - )|[A-Z]{3,7}\b|[IWEF]\d{4} |[A-Z][a-z]{2} [ \d])"
)
_QUOTE_END = re.compile(r"(?:\\n)?['\"][,;)\\ \t]{0,4}$")
_IS_HOST = re.compile(r"[^\W\d]*[\d.-][\w.-]*")  # a name with a digit, a dot or a dash: a word may be a title


class LinePrefix(NamedTuple):
    """The prefix of a line: its parts, each with whether it is a name, and its host, "" where it has none."""

    parts: tuple[tuple[str, bool], ...]
    length: int
    host: str = ""

    @property
    def marks_all(self) -> bool:
        """Whether a blank line has the prefix, too: that of a diff, which also begins the borders of tables."""
        return self.parts[0][0].lstrip() == "+"

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the prefixes of further lines, on first use: most prefixes have no output behind them."""
        return _compile_parts(self.parts)


@lru_cache(maxsize=512)
def _compile_parts(parts: tuple[tuple[str, bool], ...]) -> re.Pattern[str]:
    folded = (re.escape(text) if is_name else _fold_numbers(text) for text, is_name in parts)
    return re.compile("".join(f"{part}[ \\t]?" for part in folded))


def may_have_prefix(line: str) -> bool:
    """Return whether to look for prefixes of the line."""
    return _MAY_HAVE_PREFIX.match(line) is not None


def list_prefixes(line: str) -> Iterator[LinePrefix]:
    """Yield the prefixes of a line from the shortest to the longest one."""
    parts: tuple[tuple[str, bool], ...] = ()
    host, at = "", 0
    for _ in range(_MOST_PARTS):
        if named := _HOST.match(line, at):
            parts = (*parts, (named[0].rstrip(), True))
            name, address, task = named.group("name", "address", "task")
            host = address or task or (name if name and _IS_HOST.fullmatch(name) else host)
            end = named.end()
        elif other := _OTHER.match(line, at):
            parts = (*parts, (other[0].rstrip(" \t"), False))
            end = other.end()
        else:
            return
        if end == at:
            return
        if not named and (timed := _TIME.match(line, at)) and timed.end() < end:  # a level may be the message's word
            yield LinePrefix((*parts[:-1], (timed[0].rstrip(), False)), timed.end(), host)
        if (text := parts[-1][0])[-1:] == "|" and not parts[-1][1]:  # or the bar of a row behind a shorter prefix
            yield LinePrefix((*parts[:-1], (text[:-1].rstrip(), False)), line.rindex("|", at, end), host)
        at = end
        yield LinePrefix(parts, at, host)


def _fold_numbers(text: str) -> str:
    """Return the pattern of a text with any numbers and blanks in it; a number at its end is no begin of a word."""
    if text.lstrip().startswith(">"):
        return r"[ \t]{0,80}>(?:[ \t]?>){0,8}"  # quotes of any depth
    folded = re.sub(r"\d{1,40}", "0", re.escape(text))
    folded = re.sub(r"(?:\\ |\\\t|\s)+", lambda _found: r"[ \t]{1,80}", folded.replace("0", r"\d{1,40}"))
    return rf"{folded}(?![\w-])" if text[-1:].isdigit() else folded


def find_host_prefix(line: str) -> LinePrefix | None:
    """Return the prefix of a line that begins with a host, or None."""
    first = next(list_prefixes(line), None) if _HOST.match(line) else None
    return first if first and first.host else None


def strip_run(lines: list[str], at: int, prefix: LinePrefix) -> int:
    """Remove the prefix from the line at `at` and those below it, as far as they have it, or are blank where they may.

    Return the index of the line behind them.
    """
    pattern = prefix.pattern
    is_quoted = pattern.pattern.endswith(("'[ \\t]?", '"[ \\t]?'))
    for row in range(at, len(lines)):
        found = pattern.match(lines[row])
        if not found and (lines[row].strip() or prefix.marks_all):
            return row
        rest = lines[row][found.end() :] if found else ""
        lines[row] = _QUOTE_END.sub("", rest) if is_quoted else rest
    return len(lines)


def strip_above(lines: list[str], prefix: LinePrefix, most: int) -> None:
    """Remove the prefix from the last lines that have it, at most this many."""
    for row in range(len(lines) - 1, max(-1, len(lines) - 1 - most), -1):
        if not (found := prefix.pattern.match(lines[row])):
            return
        lines[row] = lines[row][found.end() :]

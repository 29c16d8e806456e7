"""Removes what logs, scripts and web pages put around each line of an output, where most lines have the same.

node1: |   0  P800 OAM ...            a host's name, also [1,0]<stdout>: of mpirun, the level of a logger
    12	|   0  P800 OAM ...           a line number
    "|   0  P800 OAM ...|\\n",         the quotation marks of a program's source
|   0  P800 OAM ...|<br>              the line breaks of Markdown, and entities of HTML
+|   0  P800 OAM ...|                 the mark of lines that a diff adds
# |   0  P800 OAM ...|                a table in the comment of a source
"""

from __future__ import annotations

import html
import re
from collections import Counter
from itertools import pairwise

from envcheck.core.tool_text import INPUT_LIMIT, LINE_LIMIT, strip_escapes
from probes.paste.collapsed_tables import expand_collapsed_rows

SHARE = 0.6  # of the lines that have the same decoration
SAMPLE = 1000  # lines of which the share is taken
_STAMP = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d)?\]?"
_LEVEL = r"\[?(?:INFO|DEBUG|WARN|WARNING|ERROR|NOTICE|stdout|stderr)\]?(?![A-Za-z])(?: {0,2}-)?"
_HOST = r"(?:\[[\w ,./-]{1,40}\]:? ?)?<?[A-Za-z][\w.-]{0,60}>?:(?=[ \t]|(?<=>:))"
_INDENT = r"[ \t]{0,80}"
_PREFIX = re.compile(
    rf"{_INDENT}(?:(?:{_STAMP}|\[(?!dev(?:ice)?[ _]?(?:id)?[ :]*\d)[^\]\n]{{1,60}}\]|{_LEVEL}|{_HOST}|- )[ \t]?){{1,4}}"
)
_NUMBER = re.compile(r"[ \t]{0,8}(\d{1,6})(?:\t|[:|] ?| {1,2}(?=[|+]))")
_QUOTED = re.compile(r"""\A[ \t]*(?:f|r|b|u)?(['"`])(.{0,4000}?)(?:\\n)?\1[ \t]*[,;+)\\]{0,2}[ \t]*$""")
_STRING = re.compile(r""""((?:[^"\\]|\\.){20,4194304})"|'((?:[^'\\]|\\.){20,4194304})'""")
_COMMENTED_ROW = re.compile(r"[ \t]{0,80}(#{1,3}|//+|;+|\*|--(?=[ \t])|%+)[ \t]{0,8}[|+]")
_COMMENT_SIGN = re.compile(r"[#/;*%][ \t]{0,8}[|+]|-[ \t]{1,8}[|+]")  # in each match of _COMMENTED_ROW
_LINE_BREAK = re.compile(r"(?:\\|<br ?/?>)[ \t]{0,8}$", re.MULTILINE | re.IGNORECASE)
_LOOKALIKES = str.maketrans("│┃║｜─━┄┅═┼┌┐└┘├┤┬┴╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╪：\u00a0\u3000", "||||----=" + "+" * 25 + ":  ")
_LOST_ESCAPES = re.compile(
    r"(?:(?:\^\[|\u241b)\[|\[(?=\d))(?:\d{1,3}(?:;\d{1,3}){0,4})?m|\[m(?!\w)"
)  # not "[ms]", a unit
_QUOTES = re.compile(r"(?m)^[ \t]*>(?:[ \t]?>)*[ \t]?")
_SERVICE = r"\w[\w.-]{0,39} {0,6}\|(?=[ \t])"  # the prefix of docker compose
_MARK = re.compile(rf"{_INDENT}(?:(?:#|//|;|>>|\*(?!\*)|\[[^\]\n]{{1,40}}\]|{_STAMP}|{_SERVICE})[ \t]{{0,3}}){{1,4}}")
_ENTITY = re.compile(r"&(?:lt|gt|amp|#34|#39|#x27|nbsp);")


def strip_decorations(text: str) -> str:
    """Return the text without the decorations that most of its lines have."""
    text = strip_escapes(text)
    if text.count("\\n") > 2 * text.count("\n"):  # one string of JSON or of a program
        text = max((found[1] or found[2] for found in _STRING.finditer(text)), key=len, default=text)
        text = text.replace("\\n", "\n").replace("\\t", "\t")
    text = text.replace("&quot;", '"')
    if _ENTITY.search(text) and "<xpu" not in text:
        text = html.unescape(text)
    if "\\" in text or "<" in text:
        text = _LINE_BREAK.sub("", text).replace('\\"', '"')
    lines = given = text.split("\n")
    strip_comment = (_strip_comment,) if _COMMENT_SIGN.search(text) else ()
    for strip in (_strip_added, *strip_comment, _strip_quotes, _strip_numbers, _strip_prefixes, expand_collapsed_rows):
        lines = strip(lines)
    return text if lines is given else "\n".join(lines)


def _strip_added(lines: list[str]) -> list[str]:
    """Return the lines without the mark of a diff, which all lines have; of a table, only borders begin with it."""
    if next(filter(str.strip, lines), "")[:1] != "+":
        return lines
    full = list(filter(str.strip, lines))
    if not all(line[0] == "+" for line in full) or all(line[1:2] in "+-=" for line in full):
        return lines
    return [line[1:] for line in lines]


def _strip_comment(lines: list[str]) -> list[str]:
    """Return the lines without the mark of a comment that has a table; the rest of the source has no such rows."""
    found = Counter(match[1] for line in lines if (match := _COMMENTED_ROW.match(line)))
    mark, count = next(iter(found.most_common(1)), ("", 0))
    if count < 3:
        return lines
    begin = re.compile(rf"[ \t]{{0,80}}{re.escape(mark)}[ \t]?")
    return [begin.sub("", line, count=1) for line in lines]


def _strip_quotes(lines: list[str]) -> list[str]:
    return (
        [found[2] if (found := _QUOTED.match(line)) else line for line in lines]
        if _is_common(lines, _QUOTED)
        else lines
    )


def _strip_numbers(lines: list[str]) -> list[str]:
    """Return the lines without numbers that count them."""
    if not _is_common(lines, _NUMBER):
        return lines
    numbers = [int(found[1]) for line in lines if (found := _NUMBER.match(line))]
    steps = sum(after - before == 1 for before, after in pairwise(numbers))
    if steps < SHARE * (len(numbers) - 1):
        return lines
    return [_NUMBER.sub("", line, count=1) for line in lines]


def _strip_prefixes(lines: list[str]) -> list[str]:
    return _strip_common(lines, _PREFIX)


def _strip_common(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    """Return the lines without the prefix that most have, numbers in it aside; some may go on with a further one."""
    sample = _take_sample(lines)
    found = Counter(_prefix_shape(match[0]) for line in sample if (match := pattern.match(line)))
    shape = max(found, key=lambda one: (_count_lines(one, found), -len(one)), default="")
    if not shape or _count_lines(shape, found) < max(2, SHARE * len(sample)):
        return lines
    parts = (re.escape(word).replace("0", r"\d{1,40}") for word in shape.split())
    prefix = re.compile(r"[ \t]{0,80}" + r"[ \t]{1,20}".join(parts) + r"[ \t]?")
    return [prefix.sub("", line, count=1) if prefix.match(line) else line for line in lines]


def _prefix_shape(prefix: str) -> str:
    return " ".join(re.sub(r"\d{1,40}", "0", prefix).split())


def _count_lines(shape: str, found: Counter[str]) -> int:
    return sum(count for other, count in found.items() if (other + " ").startswith(shape + " "))


def _is_common(lines: list[str], pattern: re.Pattern[str]) -> bool:
    sample = _take_sample(lines)
    return sum(bool(pattern.match(line)) for line in sample) >= max(2, SHARE * len(sample))


def _take_sample(lines: list[str]) -> list[str]:
    """Return lines that are not blank: all of a short text, of a long one the first ones and some of the rest."""
    if len(lines) > SAMPLE:
        lines = [*lines[: SAMPLE // 2], *lines[SAMPLE // 2 :: max(1, 2 * len(lines) // SAMPLE)]]
    return [line for line in lines if line.strip()]


def clean_characters(text: str, line_limit: int = LINE_LIMIT) -> str:
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


def strip_marks(lines: list[str]) -> list[str]:
    """Return the lines without the mark that most have, such as `# ` or the name of a container."""
    sample = _take_sample(lines)
    if sum(line[0] in "|+" for line in sample) > (1 - SHARE) * len(sample):  # rows of a table, which have no mark
        return lines
    return _strip_common(lines, _MARK)

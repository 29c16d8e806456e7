"""Removes what logs, scripts and web pages put around each line of an output, where most lines have the same.

node1: |   0  P800 OAM ...            a host's name, also [1,0]<stdout>: of mpirun, the level of a logger
    12	|   0  P800 OAM ...           a line number
    "|   0  P800 OAM ...|\\n",         the quotation marks of a program's source
|   0  P800 OAM ...|<br>              the line breaks of Markdown, and entities of HTML
+|   0  P800 OAM ...|                 the mark of lines that a diff adds
# |   0  P800 OAM ...|                a table in the comment of a source
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

from envcheck.core.tool_text import INPUT_LIMIT, LINE_LIMIT, strip_escapes
from probes.paste.collapsed_tables import expand_collapsed_rows

SHARE = 0.6  # of the lines that have the same decoration
SAMPLE = 1000  # lines of which the share is taken
_STAMP = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d)?\]?"
_MONTH = r"[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,6})?"  # of syslog and journalctl
_UNIT = r"[\w.-]{1,64} [\w./@-]{1,64}(?:\[\d{1,8}\])?:"  # behind it: the host, the unit and its process
_PROCESS = r"[\w.-]{1,64} [\w./@-]{1,64}\[\d{1,8}\]:"
_KLOG = r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,6} {1,8}\d{1,8} [\w.-]{1,60}:\d{1,6}\]"
_LEVEL_NAME = r"(?:INFO|DEBUG|WARN|WARNING|ERROR|NOTICE|stdout|stderr)"
_LEVEL = rf"(?:\[?{_LEVEL_NAME}\]?(?![A-Za-z\]])(?: [FP](?![^\s])|:[\w.]{{1,40}}:|:|(?: {{0,2}}-))?)"
_BRACKETS = r"\[(?!dev(?:ice)?[ _]?(?:id)?[ :]*\d)[^\]\n]{1,60}\]:?"
# Not the name of a shell or another program before its own message.
_OTHER_SPEAKERS = r"-?(?:ba|da|z|k|a|c)?sh|cat|sudo|NVRM|\w{1,12}[-_]?smi"
_HOST = rf"(?!(?:{_OTHER_SPEAKERS}):)(?:\[[\w ,./-]{{1,40}}\]:? ?)?<?[A-Za-z][\w.-]{{0,60}}>?:(?=[ \t]|(?<=>:)|$)"
_SERVICE = r"\w[\w.-]{0,39} {0,6}\|(?=[ \t]|$)"  # the prefix of docker compose
_LOGGER = r"[\w.:<>]{1,80}(?= [-|](?: |$))"  # a logger or a function between dashes or bars
TIME = rf"(?:{_STAMP}(?: {_PROCESS})?|{_MONTH} {{1,2}}{_UNIT}|{_KLOG})"
_SOURCE = rf"{_LEVEL}|{_LOGGER}|{_BRACKETS}"
_TIMED = rf"{TIME}(?:[ \t]{{0,8}}(?:[-|:][ \t]{{0,8}})?(?:{_SOURCE})){{0,4}}[ \t]?(?:[-|](?= |$))?"
_INDENT = r"[ \t]{0,80}"
PREFIX_PARTS = rf"{_TIMED}|{_LEVEL}|{_BRACKETS}|{_HOST}|{_SERVICE}|- "
_PREFIX = re.compile(rf"{_INDENT}(?:(?:{PREFIX_PARTS})[ \t]?){{1,4}}")
# What no tool prints: a single line is enough.
_CERTAIN = re.compile(
    rf"{_INDENT}(?:{TIME}(?: std(?:out|err) [FP](?=\s|$)|[ \t]{{1,8}}\[?{_LEVEL_NAME}\]?(?![A-Za-z:\[\]]))?"
    r"|\[(?:rank|default|pod/|\d\d:\d\d:\d\d)[^\]\n]{0,60}\]:?|[\w.-]{1,40}[-_]\d{1,4} {0,6}\|(?=[ \t])"
    r"|(?:INFO|DEBUG|NOTICE):(?=[ \t])|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{1,40}:)"  # Python's logging
)
_NUMBER = re.compile(r"[ \t]{0,8}(\d{1,6})(\t|[:|]| {1,2}(?=[|+]))(?:(?<=[:|]) )?")
_QUOTED = re.compile(r"""\A[ \t]*(?:f|r|b|u)?(['"`])(.{0,4000}?)(?:\\n)?\1[ \t]*[,;+)\\]{0,2}[ \t]*$""")
_STRING = re.compile(r""""((?:[^"\\]|\\.){20,4194304})"|'((?:[^'\\]|\\.){20,4194304})'""")
_COMMENTED_ROW = re.compile(r"[ \t]{0,80}(#{1,3}|//+|;+|\*|--(?=[ \t])|%+)[ \t]{0,8}[|+]")
# One is in each match of _COMMENTED_ROW; a pattern that begins with a letter is faster than one for all of them.
_COMMENT_SIGNS = tuple(re.compile(rf"{sign}[ \t]{{0,8}}[|+]") for sign in ("#", "/", ";", r"\*", "%", "- ", "-\t"))
_LINE_BREAKS = (re.compile(r"(?m)\\[ \t]{0,8}$"), re.compile(r"(?m)<[Bb][Rr] ?/?>[ \t]{0,8}$"))
_BOXES = "│┃║｜─━┄┅═┼┌┐└┘├┤┬┴╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╪"
_LOOKALIKES = tuple(zip(f"{_BOXES}：\u00a0\u3000", "||||----=" + "+" * 25 + ":  ", strict=True))
_BOX = re.compile(f"[{_BOXES}]")
_LOST_ESCAPES = re.compile(
    r"(?:(?:\^\[|\u241b)\[|\[(?=\d))(?:\d{1,3}(?:;\d{1,3}){0,4})?m|\[m(?!\w)"
)  # not "[ms]", a unit
_ESCAPE_REST = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m")  # of each such escape; found ten times as fast
_ANSWERED = re.compile(r"[ \t]{0,80}>(?:[ \t]?>){0,8}(?:[ \t]|$)")
_REMARK = re.compile(r"[ \t]{0,80}(?:#{1,3}|//+|;+|%+)[ \t]")
_LEAST_REMARKS = 3
_MOST_PREFIXES = 16  # of the tables in a text, the most common ones
_QUOTES = re.compile(r"(?m)^[ \t]*>(?:[ \t]?>)*[ \t]?")
_MARK = re.compile(rf"{_INDENT}(?:(?:#|//|;|>>|\*(?!\*)|\[[^\]\n]{{1,40}}\]|{_STAMP}|{_SERVICE})[ \t]{{0,3}}){{1,4}}")
_PREFIXED_BORDER = re.compile(r"([^|+\n]{1,80}?(?:\|[ \t])?)(?:[+|](?:-{4}|={4})|-{20})")
_ENTITY = re.compile(r"&(?:lt|gt|amp|#34|#39|#x27|nbsp);")


def strip_decorations(text: str) -> str:
    """Return the text without the decorations that most of its lines have."""
    text = _strip_lost_escapes(strip_escapes(text))
    if text.count("\\n") > 2 * text.count("\n"):  # one string of JSON or of a program
        text = max((found[1] or found[2] for found in _STRING.finditer(text)), key=len, default=text)
        text = text.replace("\\n", "\n").replace("\\t", "\t")
    text = text.replace("&quot;", '"')
    if _ENTITY.search(text):
        text = text.replace("&nbsp;", " ")
        if "<xpu" not in text:
            import html  # its table of entities takes longer to import than most texts to read

            text = html.unescape(text)
    if not text.isascii():
        text = _replace_lookalikes(text) if _BOX.search(text) else text.replace("\u00a0", " ")
    if "\\" in text or "<" in text:
        for line_break in _LINE_BREAKS:
            text = line_break.sub("", text)
        text = text.replace('\\"', '"')
    if "  \n" in text and all(line.endswith("  ") for line in text.split("\n") if line.strip()):
        text = text.replace("  \n", "\n").removesuffix("  ")
    lines = given = text.split("\n")
    strip_comment = (_strip_comment,) if any(sign.search(text) for sign in _COMMENT_SIGNS) else ()
    steps = (_strip_answered, _strip_added, _strip_remarks, *strip_comment, _strip_quotes, _strip_numbers)
    for strip in (*steps, _strip_prefixes, _strip_prefixed_tables, expand_collapsed_rows):
        lines = strip(lines)
    return text if lines is given else "\n".join(lines)


def _strip_answered(lines: list[str]) -> list[str]:
    """Return the lines without the marks of a quoted mail or issue, which most lines have."""
    full = list(islice(filter(str.strip, lines), 2))
    is_quoted = _is_common(lines, _ANSWERED) if len(full) > 1 else any(map(_ANSWERED.match, full))
    if not is_quoted:
        return lines
    return [line[found.end() :] if (found := _ANSWERED.match(line)) else line for line in lines]


def _strip_remarks(lines: list[str]) -> list[str]:
    """Return the lines without the mark of a comment that all lines have; a prompt alone may look like one."""
    full = list(filter(str.strip, lines))
    found = _REMARK.match(full[0]) if len(full) >= _LEAST_REMARKS else None
    if not found or not all(line.startswith((found[0], found[0].rstrip())) for line in full):
        return lines
    return [line.removeprefix(found[0].rstrip()).removeprefix(" ") for line in lines]


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
    (sign, _count), *_ = Counter(found[2] for line in lines if (found := _NUMBER.match(line))).most_common(1)
    return [
        line[found.end() :] if (found := _NUMBER.match(line)) and found[2] == sign else line for line in lines
    ]  # a bus id of a line without a number has another sign behind its digits


def _strip_prefixes(lines: list[str]) -> list[str]:
    full = filter(str.strip, lines)
    first = next(full, "")
    others = any(line != first for line in full)  # a message twice has no other line
    return _strip_common(lines, _PREFIX if others else _CERTAIN, least=2 if others else min(1, len(first)))


def _strip_prefixed_tables(lines: list[str]) -> list[str]:
    """Return the lines without the prefixes of those tables that have one before their borders."""
    text = "\n".join(lines)
    if "----" not in text and "====" not in text:
        return lines
    likely = (line for line in lines if line[:1] not in ("|", "+", "") and ("----" in line or "====" in line))
    found = [match[1] for line in likely if (match := _PREFIXED_BORDER.match(line))]
    shapes = Counter(_prefix_shape(each) for each in found if _MARK.fullmatch(each) or _PREFIX.fullmatch(each))
    for shape, _count in shapes.most_common(_MOST_PREFIXES):
        lines = _cut_prefix(lines, _compile_shape(shape)) if shape else lines
    return lines


def _strip_common(lines: list[str], pattern: re.Pattern[str], least: int = 2) -> list[str]:
    """Return the lines without the prefix that most have, numbers in it aside; some may go on with a further one."""
    prefixes, enough = _match_sample(lines, pattern, least)
    if not prefixes:
        return lines
    for shapes in (map(_prefix_shape, prefixes), (cut for prefix in prefixes for cut in _list_cuts(prefix, pattern))):
        counts = _count_begins(shapes)
        shape = max(counts, key=lambda one: (counts[one], len(one)), default="")
        if shape and counts[shape] >= enough:
            return _cut_prefix(lines, _compile_shape(shape))
    return lines


def _list_cuts(prefix: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the longest shorter prefix of the same form: in short texts, each line may go on with other words."""
    words = prefix.split()
    cuts = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    yield from islice((_prefix_shape(cut) for cut in cuts if pattern.fullmatch(cut)), 1, 2)


def _cut_prefix(lines: list[str], prefix: re.Pattern[str]) -> list[str]:
    """Return the lines without the prefix, and without the blank behind it if all have one."""
    rests = [line[found.end() :] if (found := prefix.match(line)) else None for line in lines]
    is_glued = any(rest and not rest[0].isspace() for rest in rests)
    return [line if rest is None else rest if is_glued else rest[1:] for line, rest in zip(lines, rests, strict=True)]


def _compile_shape(shape: str) -> re.Pattern[str]:
    """Return the pattern of a prefix with any numbers in it."""
    parts = (re.escape(word).replace("0", r"\d{1,40}") for word in shape.split())
    return re.compile(r"[ \t]{0,80}" + r"[ \t]{1,20}".join(parts))


def _prefix_shape(prefix: str) -> str:
    return " ".join(re.sub(r"\d{1,40}", "0", prefix).split())


def _count_begins(shapes: Iterable[str]) -> dict[str, int]:
    """Return of how many shapes the words of each one are the first ones."""
    found = Counter(shapes)
    counts: Counter[str] = Counter()
    for shape, count in found.items():
        words = shape.split(" ")
        for end in range(1, len(words) + 1):
            counts[" ".join(words[:end])] += count
    return {shape: counts[shape] for shape in found}


def _is_common(lines: list[str], pattern: re.Pattern[str]) -> bool:
    return bool(_match_sample(lines, pattern, least=2)[0])


def _match_sample(lines: list[str], pattern: re.Pattern[str], least: int) -> tuple[list[str], float]:
    """Return what the pattern matches in a sample, nothing if too few lines have it, and how many are enough."""
    sample = _take_sample(lines)
    enough = max(least, SHARE * len(sample))
    others = len(sample) - enough
    found: list[str] = []
    for line in sample:
        if match := pattern.match(line):
            found.append(match[0])
        elif (others := others - 1) < 0:
            return [], enough
    return found if others >= 0 else [], enough


def _take_sample(lines: list[str]) -> list[str]:
    """Return lines that are not blank: all of a short text, of a long one the first ones and some of the rest."""
    if len(lines) > SAMPLE:
        lines = [*lines[: SAMPLE // 2], *lines[SAMPLE // 2 :: max(1, 2 * len(lines) // SAMPLE)]]
    return [line for line in lines if line.strip()]


def _strip_lost_escapes(text: str) -> str:
    """Return the text without escapes of which a paste kept the signs, or lost the first one."""
    return _LOST_ESCAPES.sub("", text) if _ESCAPE_REST.search(text) else text


def _replace_lookalikes(text: str) -> str:
    """Return the text with the ASCII of these characters: few are in a text, and each is found sooner than any."""
    for lookalike, sign in _LOOKALIKES:
        text = text.replace(lookalike, sign)
    return text


def clean_characters(text: str, line_limit: int = LINE_LIMIT) -> str:
    """Return the tool's output from pasted text.

    Removes escapes (also those without their first character), `> ` quotes and page marks; box-drawing characters and
    full-width signs become the ASCII that the tools print.  Line breaks are kept; over-long lines are cut.
    """
    text = _strip_lost_escapes(strip_escapes(text[:INPUT_LIMIT]))
    if not text.isascii():
        text = _replace_lookalikes(text).replace("\ufeff", "")
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
    if len({*sample}) < 2:  # a message, maybe twice
        return lines
    if sum(line[0] in "|+" for line in sample) > (1 - SHARE) * len(sample):  # rows of a table, which have no mark
        return lines
    return _strip_common(lines, _MARK)

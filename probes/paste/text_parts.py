"""Splits pasted text into the outputs of its commands, by command lines, first lines of outputs, and titles of hosts.

[root@node1 ~]# nvidia-smi                    a command: the prompt tells the host
+--------------------------------------+      a border and a date belong to the output that they precede
| NVIDIA-SMI 535.104   Driver Version  |      the first line of an output
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias

from probes.paste.host_marks import (
    TITLE_BEGINS,
    TITLE_ENDS,
    TITLE_RULE,
    TITLE_WORDS,
    find_remote_host,
    find_title,
    read_watch_head,
    split_one_line_title,
)
from probes.paste.marked_lines import LineMarks, MarkIndex, find_marked_lines, fold_digits, make_marks
from probes.paste.output_forms import FOREIGN, FirstLine, OutputForms
from probes.paste.output_restarts import BLOCK_HEAD, LinesAbove
from probes.paste.prefixed_runs import (
    LinePrefix,
    find_host_prefix,
    list_prefixes,
    may_have_prefix,
    strip_above,
    strip_run,
)

PARTS_LIMIT = 4000  # parts kept of one text, from both ends: a watch log with a table a minute has 1,440 a day
_INDENT_LIMIT = 100  # blanks before a first line: the names above a matrix are indented by some twenty
_PROMPT = (
    r"\s*(?:\([^()]{1,60}\)\s*)*(?:\[(?:[\w.-]{1,32}@(?P<host>[\w.-]{1,63}))?[^\]]{0,80}\]\s*(?:[#$%>]\s*)?"
    r"|[\w.-]{1,32}@(?P<other>[\w.-]{1,63})[^#$%|]{0,80}[#$%]\s*|[/~][^\s#$]{0,120}[#$]\s*"
    r"|(?:PS )?[A-Z]:\\[^>]{0,80}>\s*|[#$%>]{1,3}\s*)?"
    r"(?:for\s[^|]{1,80}?\bdo\s+)?(?P<through>(?:docker|kubectl|podman|watch|ssh|srun|timeout|sudo|time)\s[^|]{0,120}?)?"
)
_WORDS = r"(?:\s+(?:-|info\b(?!:)|topo|dmon|pmon|nvlink|xpulink|mig|set\b|upgrade\b|clear\b|[|>;&#]|2>).*)?\s*"
_GAP = 300  # lines without any mark of the form, after which the output has ended
_MARKS = {"table": "|", "info": "|", "vnpu": "|", "xml": "<", "query-text": ":", "csv": ",", "fields": ":"}
# Behind an empty line, a head above a rule with bars: the rules of the tools' tables have plus signs between cells.
_MARKDOWN_TABLE = re.compile(
    r"\n[ \t]*\n[ \t]{0,8}\|[^\n]{1,400}\n[ \t]{0,8}\|(?:[ :]{0,2}-{2,80}[ :]{0,2}\|){2,30}[ \t]*"
    r"(?:\n[ \t]{0,8}\|[^\n]*)*"
)
_OTHER_LIMIT = 2000  # lines of an output of another form: a topology, a list, an error
_RULE = re.compile(r".{0,40}?[+|=-][-=+| ]{8,}(?![-=+| ])\s*$")
_DATE = re.compile(
    r"\s*(?:Timestamp\s+)?[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?: [AP]M)?(?: [A-Z]{1,5})? \d{4}\s*$"
)
_XML_HEAD = re.compile(r"\s*<[?!]")
_PREAMBLE = 3  # lines
# A line that answers a command, although no output is known to begin so, or the prompt behind its answer.
_ANSWER = re.compile(
    r"\s*(?:[A-Za-z][\w ()%/.-]{1,60}?\s+:\s*\S"
    r"|[a-z]\w* [a-z_ ]{2,40}:|[a-z]\w{2,40}:[^\s:/]|[Uu]sage: \S|[^,]{1,80}, [^,]{1,80}, \S"
    r"|(?P<row>\|).{1,200}(?:\d[MG]iB|[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\b.{0,200}\||[#$]\s*$)"
)
# The prompt of another command: the output above it has ended.
_OTHER_PROMPT = re.compile(
    r"\s{0,8}(?:\([^()]{1,60}\)\s{0,4}){0,3}\[?[\w.-]{1,32}@([\w.-]{1,63})(?:[: ][^#$%|\]]{0,80})?\]?\s?[#$](?:\s|$)"
)
PROMPT_MARKS, PROMPT_ENDS = ("]# ", "]$ ", "~# ", "~$ "), ("]#", "]$", "~#", "~$")
# Form → the numbers of its rows, and how many a row has at least that a mask or a wrap leaves.
_ROW_NUMBERS = {
    "log": (re.compile(r"(?<!\S)\d+(?:\.\d+)?(?:C|W|%|MiB|MHz)(?!\S)"), 2),
    "machine": (re.compile(r"(?<!\S)\d+(?:\.\d+)?(?!\S)"), 8),
}
_ROW_LIMIT = 300  # characters of such a row
_QUANTITY = re.compile(r"\{\d{0,9}(?:,\d{0,9})?\}|0-9|\\u[0-9a-f]{4}")  # of a pattern
_LITERAL_DIGIT = re.compile(r"\d")
# The pattern may match a line, although it does not match that line with zeros for all digits.
_OTHER_DIGIT = re.compile(r"[1-9]|\(\?<?!|\[\^[^]]*0")
_BETWEEN = 3  # lines between a command and its output: a question for the password, a comment


# What a line begins: the match of a command and the host that its prompt names, or else the tools and the form of an
# output.
_Begin: TypeAlias = tuple[tuple[re.Match[str], str] | None, tuple[tuple[str, ...], FirstLine] | None]


@dataclass(slots=True)
class TextPart:
    """One output with the line of its command.

    `tools` are the tools that print its first line, `form` is that line's form; both are empty for text before the
    first output.  `command` and `host` are "" where the text does not show them.  `first` is the index of the first
    line in the text that was split.
    """

    lines: list[str] = field(default_factory=list)
    tools: tuple[str, ...] = ()
    form: str = ""
    command: str = ""
    host: str = ""
    first: int = 0

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


class _LineForm(NamedTuple):
    """Whether a line may be a command, what it begins, and the positions of the patterns that its numbers decide."""

    has_program: bool
    start: tuple[tuple[str, ...], FirstLine] | None
    asked: Sequence[int]


class PartSplitter:
    """Splits texts by the forms of these tools."""

    def __init__(self, forms: Mapping[str, OutputForms]) -> None:
        self._starts: dict[FirstLine, tuple[str, ...]] = {}  # first line → the tools that print it
        for tool, own in forms.items():
            for first in (*own.own, *own.shared):
                self._starts[first] = (*self._starts.get(first, ()), tool)
        self._firsts, self._printed_by = tuple(self._starts), tuple(self._starts.values())
        self._program_words = sorted({word for own in forms.values() for word in own.program_words or ("",)})
        marks = [(first.words, first.begins) for first in self._firsts]
        self._index = MarkIndex([*marks, (self._program_words, ())])
        self._patterns: list[re.Pattern[str] | None] = [None] * len(self._firsts)  # compiled for a line with a mark
        patterns = [_QUANTITY.sub("", each.pattern) for each in self._firsts]
        self._needs_numbers = [bool(_LITERAL_DIGIT.search(each)) for each in patterns]
        self._needs_others = [
            needs and bool(_OTHER_DIGIT.search(each)) for needs, each in zip(self._needs_numbers, patterns, strict=True)
        ]
        self._find_form = lru_cache(maxsize=4096)(self._read_form)  # most lines of a watch log differ by digits alone
        self._list_ends = lru_cache(maxsize=4096)(self._read_ends)
        programs = "|".join(f"(?P<p{at}>{own.programs})" for at, own in enumerate(forms.values()))
        self._tools = tuple((f"p{at}", tool) for at, tool in enumerate(forms))
        self._program = re.compile("|".join(own.programs for own in forms.values()))
        self._marks = _make_marks([*self._starts], [*forms.values()])
        self._command = re.compile(
            rf"{_PROMPT}(?:(?:& )?\"?[A-Z]:\\[^\"<>|]{{1,120}}\\|(?:/[\w.-]+)*/?)"
            rf"(?P<command>(?:{programs}){_WORDS})['\"]?\s*"
        )

    def split_lines(self, lines: Sequence[str], host: str = "") -> list[TextPart]:
        """Return the parts in order; the first one is the text before the first output, often empty.

        A host before the lines or above them outranks that of a prompt.
        """
        parts = [TextPart(host=host)]
        lines = list(lines)
        outer, prompt = host, ""
        above_of: TextPart | None = None
        above = LinesAbove([])
        done = run_end = 0
        plain: set[str] = set()  # lines that begin nothing, wherever they are
        for at in self._find_marked_lines(lines):
            line = lines[at]
            if at < done:
                continue
            if line in plain and at != run_end - 1 and (line[:3] != TITLE_RULE or not find_title(lines, at)):
                continue
            if done < run_end <= at:  # an output whose lines have a prefix ends with it
                parts[-1].lines += lines[done:run_end]
                parts.append(TextPart([], (), "", "", outer or prompt, run_end))
                done = run_end
            if done < at:
                parts[-1].lines += lines[done:at]
            done = at + 1
            if len(parts) > 2 * PARTS_LIMIT:
                _limit_parts(parts)
            if (line[:1] in TITLE_BEGINS or line[-2:] in TITLE_ENDS) and (title := find_title(lines, at)):
                outer, done = title[0], at + title[1]
                parts.append(TextPart(host=outer, first=done))
                continue
            if "(stdout)" in line and (one_line := split_one_line_title(line)):
                outer, line = one_line
                parts.append(TextPart(host=outer, first=at))
            folded = fold_digits(line)
            command, start = self._ask_form(line, self._find_form(folded))
            prefixed = None if command else self._find_prefix(line, folded, is_start=start is not None)
            if prefixed:
                prefix, (command, start) = prefixed
                run_end = strip_run(lines, at, prefix)
                last = parts[-1]
                if last.lines:
                    strip_above(last.lines, prefix, _PREAMBLE)
                    above_of = None  # its lines are others now
                rest, line = line[prefix.length :], lines[at]
                if prefix.host not in ("", last.host):
                    taken = _take_preamble(last.lines, line)
                    parts.append(TextPart(taken, (), "", "", prefix.host, at - len(taken)))
                if line != rest:
                    command, start = self._read_begin(line)
            if command:
                found, named = command
                prompt = named or prompt
                parts.append(self._begin_command(found, outer or prompt, at))
            elif start:
                tools, first = start
                last = parts[-1]
                ours = not set(tools).isdisjoint(last.tools)
                if last.command and not last.form and _is_below_command(last, line, first, ours):
                    last.form = first.form
                    last.tools = tuple(tool for tool in tools if tool in last.tools) or tools
                else:
                    goes_on = ours and (first.extends or (first.repeats and last.form == first.form))
                    if goes_on and first.restart is not None:
                        if above_of is not last:
                            above_of, above = last, LinesAbove(last.lines, bool(last.command))
                        goes_on = not first.restart(above, line, lines[at + 1 : at + BLOCK_HEAD])
                    if not goes_on:
                        parts.append(_begin_output(last, at, line, tools, first))
            elif (
                ("#" in line or "$" in line)
                and ("# " in line[:160] + " " or "$ " in line[:160] + " ")
                and (other := _OTHER_PROMPT.match(line))
            ):
                prompt = other[1]
                parts.append(TextPart(host=outer or prompt, first=at))
            elif not prefixed and line is lines[at]:
                plain.add(line)
            parts[-1].lines.append(line)
        if done < run_end:
            parts[-1].lines += lines[done:run_end]
            parts.append(TextPart(host=outer or prompt, first=run_end))
            done = run_end
        parts[-1].lines += lines[done:]
        _limit_parts(parts)
        return parts

    def find_last_start(self, text: str) -> int | None:
        """Return where the last line that begins an output begins, with its preamble; None if there is none."""
        lines = text.split("\n")
        for at in reversed(self._find_marked_lines(lines)):
            line = lines[at]
            form = self._find_form(fold_digits(line))
            if (
                form.start
                or self._match_start(line, form.asked)
                or (form.has_program and self._command.fullmatch(line))
            ):
                first = at
                while at - first < _PREAMBLE and first > 0 and _is_preamble(lines[first - 1], line):
                    first -= 1
                return sum(map(len, lines[:first])) + first
        return None

    def _find_marked_lines(self, lines: Sequence[str]) -> Sequence[int]:
        """Return the indices of the lines that may begin an output; of all lines if a form has no words."""
        return find_marked_lines(lines, self._marks) if self._marks else range(len(lines))

    def _read_begin(self, line: str) -> _Begin:
        """Return what a line begins."""
        return self._ask_form(line, self._find_form(fold_digits(line)))

    def _ask_form(self, line: str, form: _LineForm) -> _Begin:
        """Return what a line of this form begins."""
        command = self._match_command(line) if form.has_program else None
        if command:
            return command, None
        return None, form.start or (self._match_start(line, form.asked) if form.asked else None)

    def _read_form(self, folded: bytes) -> _LineForm:
        """Return what lines with these words begin where no number of them decides it, else the patterns to ask."""
        marks = self._index.find_marked(folded)
        has_program = marks[-1:] == [len(self._firsts)]
        line = folded.decode("utf-8", "surrogatepass")
        asked: list[int] = []
        for at in marks[:-1] if has_program else marks:
            if not self._needs_others[at]:
                start = self._match_start(line, [at])
                if not start:
                    continue
                if not (asked or self._needs_numbers[at]):
                    return _LineForm(has_program, start, ())
            asked.append(at)
        return _LineForm(has_program, None, asked)

    def _match_start(self, line: str, positions: Sequence[int]) -> tuple[tuple[str, ...], FirstLine] | None:
        """Return the tools and the form of a line that begins an output; a pattern may try each blank before the line
        twice."""
        if positions and line[:1].isspace():
            blanks = len(line) - len(line.lstrip())
            if blanks == len(line):
                return None
            line = line[max(0, blanks - _INDENT_LIMIT) :]
        for at in positions:
            pattern = self._patterns[at]
            if pattern is None:
                pattern = self._patterns[at] = re.compile(self._firsts[at].pattern)
            if pattern.match(line):
                return self._printed_by[at], self._firsts[at]
        return None

    def _find_prefix(self, line: str, folded: bytes, *, is_start: bool) -> tuple[LinePrefix, _Begin] | None:
        """Return the prefix of a line and what is behind it; of one that begins an output as it is, only a mark of
        a table, or a host."""
        if is_start and "|" not in line:
            prefix = find_host_prefix(line)
            begin = self._read_begin(line[prefix.length :]) if prefix else (None, None)
            return (prefix, begin) if prefix and any(begin) else None
        if is_start and line.lstrip()[:1] == "|":
            return None
        for place, end, form in self._list_ends(folded):
            begin = self._ask_form(line[end:], form)
            if any(begin):
                return _read_prefix(folded, place, line[:end]), begin
        return None

    def _read_ends(self, folded: bytes) -> Sequence[tuple[int, int, _LineForm]]:
        """Return the prefixes of lines with these words behind which something may begin: the place of each among all
        prefixes, where it ends, and the form of what is behind it.

        No number decides where a prefix ends.
        """
        line = folded.decode("utf-8", "surrogatepass")
        ends = [each.length for each in list_prefixes(line)] if may_have_prefix(line) else []
        forms = [self._find_form(fold_digits(line[end:])) for end in ends]
        return [(at, ends[at], form) for at, form in enumerate(forms) if form.has_program or form.start or form.asked]

    def begins_output(self, line: str) -> bool:
        """Return whether the line is a command, or the first one of an output."""
        return any(self._read_begin(line))

    def is_command(self, line: str) -> bool:
        """Return whether the line is a command."""
        return any(map(line.__contains__, self._program_words)) and bool(self._match_command(line))

    def _match_command(self, line: str) -> tuple[re.Match[str], str] | None:
        """Return the match of a command line, also one that `watch` shows, and the host that its prompt names."""
        if not self._program.search(line):
            return None
        watched = read_watch_head(line)
        found = self._command.fullmatch(watched[0] if watched else line)
        if not found:
            return None
        return found, watched[1] if watched else found["host"] or found["other"] or ""

    def _begin_command(self, found: re.Match[str], host: str, at: int) -> TextPart:
        tool = next(tool for name, tool in self._tools if found[name])
        command = " ".join(found["command"].split()).rstrip(";")
        host = find_remote_host(found["through"] or "") or host
        return TextPart(tools=(tool,), command=command, host=host, first=at)


@lru_cache(maxsize=1024)  # a host is before many lines of the same words
def _read_prefix(folded: bytes, place: int, prefix: str) -> LinePrefix:
    """Return the prefix of a line with these words and this prefix, which has this place among all of its prefixes."""
    line = prefix + folded.decode("utf-8", "surrogatepass")[len(prefix) :]
    return next(islice(list_prefixes(line), place, None))


def _limit_parts(parts: list[TextPart]) -> None:
    """Remove the parts in the middle, as far as the limit asks for it."""
    if len(parts) > PARTS_LIMIT:
        del parts[PARTS_LIMIT // 2 : len(parts) - PARTS_LIMIT // 2]


def _begin_output(last: TextPart, at: int, line: str, tools: tuple[str, ...], first: FirstLine) -> TextPart:
    """Return the part that the line begins, with the last lines of the part above that belong to it."""
    lines = last.lines
    taken: list[str] = []
    if lines and not last.tools:
        taken = _take_headless_rows(lines, line) or _take_damaged_rows(lines, line, first.form)
    taken = taken or _take_preamble(lines, line)
    return TextPart(taken, tools, first.form, "", last.host, at - len(taken))


def _is_below_command(part: TextPart, line: str, first: FirstLine, ours: bool) -> bool:
    """Return whether the line begins the answer to a command, with what is below the command already."""
    below = part.lines[1 : _BETWEEN + 2]
    between = sum(bool(each.strip()) for each in below)
    if not ours or first.form == FOREIGN:
        return not between
    if first.form == "csv" and line.count(",") > 1 and _have_commas(part.lines[1:], line.count(",")):
        return True  # rows that have masks
    is_row = (
        line.lstrip()[:1] == "|" and "Version" not in line and not _end_with_gap(part.lines)
    )  # rows above it may be of its table
    answers = filter(None, map(_ANSWER.match, below))
    return between <= _BETWEEN and not any(not (is_row and found["row"]) for found in answers)


def _end_with_gap(lines: Sequence[str]) -> bool:
    """Return whether a blank line is below lines that have none between them: the rows above it are another table's."""
    return len(lines) > 2 and not lines[-1].strip() and bool(lines[-2].strip() and lines[-3].strip())


def _have_commas(lines: Sequence[str], count: int) -> bool:
    """Return whether each line that is not blank has this number of commas."""
    return all(line.count(",") == count for line in lines if line.strip())


def _make_marks(starts: Sequence[FirstLine], forms: Sequence[OutputForms]) -> LineMarks | None:
    """Return the marks of which each line that begins a part has one; None if there are lines without any."""
    if not all([first.words or first.begins for first in starts] + [own.program_words for own in forms]):
        return None
    words = [word for each in starts if not each.also for word in each.words]
    words += [word for own in forms for word in own.program_words]
    pairs = [(word, each.also) for each in starts if each.also for word in each.words]
    begins = [begin for each in starts for begin in each.begins]
    return make_marks([*TITLE_WORDS, *PROMPT_MARKS, *words], [TITLE_RULE, *begins], (*TITLE_ENDS, *PROMPT_ENDS), pairs)


def _take_preamble(lines: list[str], first: str) -> list[str]:
    """Remove the last lines that belong to the next output, and return them: a border with a date, or XML's head."""
    taken: list[str] = []
    if not lines:
        return taken
    ruled = False
    while lines and len(taken) < _PREAMBLE:
        line = lines[-1]
        is_rule = bool(_RULE.match(line))
        ends_table = is_rule and ruled and line.rstrip()[-1:] in "+|" and all(map(str.strip, lines[-2:-1]))
        if ends_table or not _is_preamble(line, first):
            break
        ruled |= is_rule
        taken.insert(0, lines.pop())
    return taken


def _take_headless_rows(lines: list[str], first: str) -> list[str]:
    """Remove the rows of a table that end just above a line of the same table, and return them: its head is cut off."""
    at = len(lines)
    while at and lines[at - 1].lstrip()[:1] in ("|", "+", "-"):
        at -= 1
    taken = lines[at:] if first.lstrip()[:1] == "|" and any(line.lstrip()[0] == "|" for line in lines[at:]) else []
    del lines[len(lines) - len(taken) :]
    return taken


def _take_damaged_rows(lines: list[str], first: str, form: str) -> list[str]:
    """Remove the last lines that are rows of the same form as the first readable one, and return them: each has as many
    commas or some of its numbers."""
    if form == "csv" and (commas := first.count(",")) > 1:
        taken = takewhile(lambda line: line.count(",") == commas, reversed(lines))
    elif form in _ROW_NUMBERS:
        number, least = _ROW_NUMBERS[form]
        taken = takewhile(lambda line: len(line) < _ROW_LIMIT and len(number.findall(line)) >= least, reversed(lines))
    else:
        return []
    count = sum(1 for _ in taken)
    return [lines.pop() for _ in range(count)][::-1]


def _is_preamble(line: str, first: str) -> bool:
    """Return whether the line belongs to the output whose first line is below it: only tables have a border."""
    return bool(("|" in first and _RULE.match(line)) or _DATE.match(line) or ("<" in first and _XML_HEAD.match(line)))


def drop_markdown_tables(text: str) -> str:
    """Return the text with empty lines for the tables of Markdown in it, which no tool prints."""
    if "-|" not in text and "- |" not in text:
        return text
    return _MARKDOWN_TABLE.sub(lambda found: "\n" * found[0].count("\n"), f"\n{text}")[1:]


def cut_after_output(part: TextPart) -> str:
    """Return the text of a part without a long log below its output, and without other tables."""
    mark = _MARKS.get(part.form)
    if not part.tools:
        return part.text + "\n"
    if len(part.lines) <= _OTHER_LIMIT:
        return drop_markdown_tables(part.text) + "\n"
    if mark is None:
        return "\n".join(part.lines[:_OTHER_LIMIT]) + "\n"
    last = 0
    for at, line in enumerate(part.lines):
        if mark in line:
            last = at
        elif at - last > _GAP:
            break
    return "\n".join(part.lines[: last + 2]) + "\n"

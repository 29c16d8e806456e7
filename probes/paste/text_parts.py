"""Splits pasted text into the outputs of its commands, by command lines, first lines of outputs, and hosts.

[root@node1 ~]# nvidia-smi                    a command: the prompt tells the host
+--------------------------------------+      a border and a date belong to the output that they precede
| NVIDIA-SMI 535.104   Driver Version  |      the first line of an output
node1: GPU 0: ...                             a host before each line, as pdsh and clush print
node1 | CHANGED | rc=0 >>                     a host before its output, as Ansible prints; clush -b and dshbak -c
                                              print it between two lines of dashes
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.paste.output_forms import FirstLine, OutputForms

PARTS_LIMIT = 4000  # parts kept of one text, from both ends: a watch log with a table a minute has 1,440 a day
HOSTS_LIMIT = 4096
_SAMPLE = 200  # lines
_PROMPT = (
    r"\s*(?:\([^()]{1,60}\)\s*)*(?:\[(?:[\w.-]{1,32}@(?P<host>[\w.-]{1,63}))?[^\]]{0,80}\]\s*[#$%>]?\s*"
    r"|[\w.-]{1,32}@(?P<other>[\w.-]{1,63})[^#$%|]{0,80}[#$%]\s*|[/~][^\s#$]{0,120}[#$]\s*"
    r"|(?:PS )?[A-Z]:\\[^>]{0,80}>\s*|[#$%>]{1,3}\s*)?"
    r"(?:for\s[^|]{1,80}?\bdo\s+)?(?:(?:docker|kubectl|podman|watch|ssh|timeout|sudo|time)\s[^|]{0,120}?)?"
)
_WORDS = r"(?:\s+(?:-|info\b(?!:)|topo|dmon|pmon|nvlink|xpulink|mig|set\b|upgrade\b|clear\b|[|>;&#]|2>).*)?\s*"
_HOST = re.compile(r"(?!(?:https?|[A-Za-z]{1,12} [A-Za-z]))<?([A-Za-z][\w.-]{1,62})>?:(?=[ \t]|$)[ \t]?")
_HOST_TITLE = re.compile(
    r"\s*(?:([\w.-]{1,63}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)!? ?(?:\| rc=\d+ )?(?:>>|=>)"
    r"|==> ([\w.-]{1,63}) <==|-{3,} ?([A-Za-z][\w.-]{1,62}) ?-{3,})$"
)
_GAP = 300  # lines without any mark of the form, after which the output has ended
_MARKS = {"table": "|", "info": "|", "vnpu": "|", "xml": "<", "query-text": ":", "csv": ",", "fields": ":"}
_OTHER_LIMIT = 2000  # lines of an output of another form: a topology, a list, an error
_GATHERED_HOSTS = re.compile(r"([A-Za-z][\w.-]{0,62}(?:\[[\d,-]{1,80}\])?(?:,[\w.,\[\]-]{1,200})?)(?: \(\d+\))?")
_TITLE_ENDS = (">>", "=>", "==", "--")
_RULE = re.compile(r".{0,40}?[+|=-][-=+| ]{8,}\s*$")
_DATE = re.compile(
    r"\s*(?:Timestamp\s+)?[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?: [AP]M)?(?: [A-Z]{1,5})? \d{4}\s*$"
)
_XML_HEAD = re.compile(r"\s*<[?!]")
_PREAMBLE = 3  # lines
_BETWEEN = 3  # lines between a command and its output: a question for the password, a comment


@dataclass
class TextPart:
    """One output with the line of its command.

    `tools` are the tools that print its first line, `form` is that line's form; both are empty for text before the
    first output.  `command` and `host` are "" where the text does not show them.
    """

    lines: list[str] = field(default_factory=list)
    tools: tuple[str, ...] = ()
    form: str = ""
    command: str = ""
    host: str = ""

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


class PartSplitter:
    """Splits texts by the forms of these tools."""

    def __init__(self, forms: Mapping[str, OutputForms]) -> None:
        self._starts: dict[str, tuple[tuple[str, ...], FirstLine]] = {}  # group → its tools and first line
        patterns: dict[FirstLine, str] = {}
        for tool, own in forms.items():
            for first in (*own.own, *own.shared):
                group = patterns.setdefault(first, f"g{len(patterns)}")
                tools = self._starts[group][0] if group in self._starts else ()
                self._starts[group] = ((*tools, tool), first)
        rows = [f"(?P<{group}>{first.pattern})" for first, group in patterns.items()]
        self._start = re.compile("|".join(rows))
        self._usual_start = re.compile("|".join(row for row in rows if r"?\|" not in row))  # without banners
        programs = "|".join(f"(?P<p{at}>{own.programs})" for at, own in enumerate(forms.values()))
        self._tools = tuple(forms)
        self._program = re.compile("|".join(own.programs for own in forms.values()))
        self._command = re.compile(rf"{_PROMPT}(?:/[\w.-]+)*/?(?P<command>(?:{programs}){_WORDS})")

    def split_lines(self, lines: list[str], host: str = "") -> list[TextPart]:
        """Return the parts in order; the first one is the text before the first output, often empty."""
        parts = [TextPart(host=host)]
        names_program = any(map(self._program.search, lines))
        for before, line in itertools.pairwise(("", *lines)):
            if len(parts) > PARTS_LIMIT:
                del parts[PARTS_LIMIT // 2]
            if _is_dashes(before) and (title := _GATHERED_HOSTS.fullmatch(line)):
                parts[-1].lines.pop()
                parts.append(TextPart(host=title[1]))
                continue
            if line[-2:] in _TITLE_ENDS and (title := _HOST_TITLE.match(line)):
                parts.append(TextPart(host=next(filter(None, title.groups()))))
                continue
            if names_program and self._program.search(line) and (found := self._command.fullmatch(line)):
                parts.append(self._begin_command(found, parts[-1].host))
            elif start := (self._start if "Version" in line else self._usual_start).match(line):
                self._begin_output(parts, line, *self._starts[start.lastgroup or ""])
            parts[-1].lines.append(line)
        return parts

    def find_last_start(self, text: str) -> int | None:
        """Return where the last line that begins an output begins, with its preamble; None if there is none."""
        end = len(text)
        while end > 0:
            begin = text.rfind("\n", 0, end - 1) + 1
            line = text[begin:end].rstrip("\n")
            if (self._start if "Version" in line else self._usual_start).match(line) or self._command.fullmatch(line):
                for _ in range(_PREAMBLE):
                    before = text.rfind("\n", 0, max(0, begin - 1)) + 1
                    if begin == 0 or not _is_preamble(text[before : begin - 1], line):
                        break
                    begin = before
                return begin
            end = begin
        return None

    def _begin_command(self, found: re.Match[str], host: str) -> TextPart:
        tool = next(tool for at, tool in enumerate(self._tools) if found[f"p{at}"])
        command = " ".join(found["command"].split()).rstrip(";")
        return TextPart(tools=(tool,), command=command, host=found["host"] or found["other"] or host)

    def _begin_output(self, parts: list[TextPart], line: str, tools: tuple[str, ...], first: FirstLine) -> None:
        """Begin a part, unless the line is the first one below its command, or continues an output."""
        last = parts[-1]
        ours = bool(set(tools) & set(last.tools))
        between = sum(bool(line.strip()) for line in last.lines[1 : _BETWEEN + 2])  # below the command
        if last.command and not last.form and (between <= _BETWEEN if ours else not between):
            last.form = first.form
            last.tools = tuple(tool for tool in tools if tool in last.tools) or tools
        elif ours and (first.extends or (first.repeats and last.form == first.form)):
            return
        else:
            parts.append(TextPart(_take_preamble(last.lines, line), tools, first.form, host=last.host))


def _take_preamble(lines: list[str], first: str) -> list[str]:
    """Remove the last lines that belong to the next output, and return them: a border with a date, or XML's head."""
    taken: list[str] = []
    ruled = False
    while lines and len(taken) < _PREAMBLE:
        line = lines[-1]
        is_rule = bool(_RULE.match(line))
        if (is_rule and ruled) or not _is_preamble(line, first):
            break
        ruled |= is_rule
        taken.insert(0, lines.pop())
    return taken


def _is_dashes(line: str) -> bool:
    return len(line) > 3 and not line.strip("-")


def _is_preamble(line: str, first: str) -> bool:
    """Return whether the line belongs to the output whose first line is below it: only tables have a border."""
    return bool(("|" in first and _RULE.match(line)) or _DATE.match(line) or ("<" in first and _XML_HEAD.match(line)))


def cut_after_output(part: TextPart) -> str:
    """Return the text of a part without a long log below its output."""
    mark = _MARKS.get(part.form)
    if len(part.lines) <= _OTHER_LIMIT or not part.tools:
        return part.text + "\n"
    if mark is None:
        return "\n".join(part.lines[:_OTHER_LIMIT]) + "\n"
    last = 0
    for at, line in enumerate(part.lines):
        if mark in line:
            last = at
        elif at - last > _GAP:
            break
    return "\n".join(part.lines[: last + 2]) + "\n"


def separate_hosts(text: str) -> list[tuple[str, str]]:
    """Return the text of each host where the lines of several have the hosts' names before them, else ("", text)."""
    lines = text.split("\n")
    full = [line for line in lines if line.strip()]
    sample = full[:_SAMPLE]
    if 2 * sum(bool(_HOST.match(line)) for line in sample) < len(sample):
        return [("", text)]
    found = Counter(match[1] for line in full if (match := _HOST.match(line)))
    names = {name for name, count in found.most_common(HOSTS_LIMIT) if count > 2}
    if len(names) < 2 or sum(found[name] for name in names) < 0.9 * len(full):
        return [("", text)]
    apart: dict[str, list[str]] = {}
    for line in lines:
        match = _HOST.match(line)
        if match and match[1] in names:
            apart.setdefault(match[1], []).append(line[match.end() :])
    return [(host, "\n".join(own)) for host, own in apart.items()]

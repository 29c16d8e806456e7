"""For an issue or a chat: GitHub's Markdown; what a tool printed stands in code, where it can mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from envcheck.core.facts import VendorFacts
from envcheck.core.findings import label
from envcheck.core.language import say
from envcheck.core.model import Finding, Status
from envcheck.report.style import MARKS
from envcheck.report.summary import (
    Report,
    aside,
    counted,
    counts,
    group_blocked,
    head,
    next_step,
    problems,
    safe,
    summary,
    title,
    verdict,
)
from envcheck.report.text import area_state
from envcheck.vendors import VENDORS

# Status -> the head of its column.
COLUMNS = {
    Status.OK: "passed",
    Status.FAIL: "failed",
    Status.WARN: "warnings",
    Status.UNKNOWN: "unknown",
    Status.BLOCKED: "not checked",
    Status.NOT_APPLICABLE: "not applicable",
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&]|^[#+-])")
_NUMBERED = re.compile(r"^(\d+)(?=[.)])")


def render(report: Report) -> str:
    areas = [(a, list(some)) for a, some in groupby(report.findings, key=lambda f: f.name.partition(".")[0])]
    told, blocked = counts(report.findings), group_blocked(report.findings)
    lines = [
        f"# {_words(head(report.facts))}",
        "",
        f"**{MARKS[verdict(report.findings)]} {_words(summary(report.findings))}**{aside(told) if told else ''}",
        "",
        *_next(report),
        "",
        f"| | {say('area')} | {' | '.join(say(word) for word in COLUMNS.values())} |",
        f"| --- | --- |{' ---: |' * len(COLUMNS)}",
        *(_row(area, some) for area, some in areas),
        *(line for v in report.facts.vendors for line in _cards(v)),
        *(line for area, some in areas for line in _area(area, some, blocked)),
    ]
    return "\n".join(lines) + "\n"


def _next(report: Report) -> Iterator[str]:
    words, _, command = next_step(report.findings).partition("\n")
    if not words and verdict(report.findings) is Status.NOT_APPLICABLE:
        words, command = say("Ask for a check that applies here:"), "envcheck doctor --list-checks"
    elif not words:
        words, command = say(report.next_command.words), report.next_command.command
    yield f"{say('Next: ')}{_words(words)}"
    if command:
        yield from _code([command])


def _row(area: str, findings: list[Finding]) -> str:
    figures = " | ".join(str(sum(counted(f) is status for f in findings)) for status in COLUMNS)
    return f"| {MARKS[area_state(findings)]} | {_words(title(area))} | {figures} |"


def _cards(v: VendorFacts) -> Iterator[str]:
    if not v.devices:
        return
    yield from ("", f"## {_words(say(v.vendor.title))}", "")
    columns = ("device", "name", "health", "memory used / total, MiB", "temperature, C", "power, W", "busy, %")
    yield f"| {' | '.join(map(say, columns))} |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: |"
    for d in v.devices:
        memory = f"{_figure(d.memory_used_mib)} / {_figure(d.memory_total_mib)}"
        figures = " | ".join(map(_figure, (d.temperature_c, d.power_w, d.utilization_percent)))
        yield f"| {label(d)} | {_words(d.name or '') or '-'} | {_words(d.health or '') or '-'} | {memory} | {figures} |"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _area(area: str, findings: list[Finding], blocked: Mapping[str, Sequence[str]]) -> Iterator[str]:
    wrong = [f for f in findings if f.status.is_problem]
    left = [f for f in findings if f.status is Status.BLOCKED]
    if wrong or left:
        yield from ("", f"## {_words(title(area))}")
    for finding in wrong:
        for n, part in enumerate(problems(finding)):
            yield from _problem(part, blocked.get(finding.name, ()) if n == 0 else ())
    if left:
        yield from ("", *(f"* {heading(f)}{say(': ')}{_words(f.seen)}" for f in left))


def _problem(finding: Finding, blocks: Sequence[str]) -> Iterator[str]:
    waived = f" *{say('waived ')}{_words(finding.waived)}*" if finding.waived else ""
    yield from ("", f"{heading(finding)}{say(': ')}{_words(finding.seen)}{waived}")
    if finding.evidence:
        yield from _code(finding.evidence)
    if blocks:
        yield from ("", f"{say('Not checked until this is fixed: ')}{_words(', '.join(blocks))}")
    if finding.remedy:
        yield from ("", _words(finding.remedy.words))
        if finding.remedy.commands:
            yield from _code(finding.remedy.commands)


def heading(finding: Finding) -> str:
    """Mark and name, with whose devices where it is of a vendor's."""
    mark = f"{MARKS[finding.status]} {_words('[~]')}" if finding.waived else MARKS[finding.status]
    device = aside(_words(say(VENDORS[finding.device].title))) if finding.device in VENDORS else ""
    return f"**{mark} {_words(finding.name)}**{device}"


def _code(lines: Iterable[str]) -> Iterator[str]:
    """A fence longer than any in the text."""
    shown = [safe(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", f"{fence}text", *shown, fence)


def _words(text: str) -> str:
    return _NUMBERED.sub(r"\1\\", _SPECIAL.sub(r"\\\1", safe(text)))

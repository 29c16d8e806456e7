"""For an issue or a chat: GitHub's Markdown; what a tool printed stands in code, where it can mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from envcheck.core.facts import VendorFacts
from envcheck.core.findings import label
from envcheck.core.language import say
from envcheck.core.model import Finding, Severity
from envcheck.report.style import MARKS
from envcheck.report.summary import (
    Report,
    aside,
    counted,
    counts,
    head,
    next_step,
    safe,
    summary,
    title,
    train_command,
    verdict,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&]|^[#+-])")
_NUMBERED = re.compile(r"^(\d+)(?=[.)])")


def render(report: Report) -> str:
    areas = [(a, list(some)) for a, some in groupby(report.findings, key=lambda f: f.name.partition(".")[0])]
    told = counts(report.findings)
    lines = [
        f"# {_words(head(report.facts))}",
        "",
        f"**{MARKS[verdict(report.findings)]} {_words(summary(report.findings))}**{aside(told) if told else ''}",
        "",
        *_next(report),
        "",
        f"| | {say('area')} | {say('ok')} | {say('not told')} | {say('warnings')} | {say('failures')} |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(_row(area, some) for area, some in areas),
        *(line for v in report.facts.vendors for line in _cards(v)),
        *(line for area, some in areas for line in _area(area, some)),
    ]
    return "\n".join(lines) + "\n"


def _next(report: Report) -> Iterator[str]:
    words, _, command = next_step(report.findings).partition("\n")
    if not words and verdict(report.findings) is Severity.SKIP:
        words, command = say("Ask for a check that applies here:"), "envcheck doctor --list-checks"
    elif not words:
        words, command = say("Start the training:"), train_command(report.facts)
    yield f"{say('Next: ')}{_words(words)}"
    if command:
        yield from _code([command])


def _row(area: str, findings: list[Finding]) -> str:
    kinds = (Severity.OK, Severity.UNKNOWN, Severity.WARN, Severity.FAIL)
    figures = " | ".join(str(sum(counted(f) is kind for f in findings)) for kind in kinds)
    return f"| {MARKS[verdict(findings)]} | {_words(title(area))} | {figures} |"


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


def _area(area: str, findings: list[Finding]) -> Iterator[str]:
    wrong = [f for f in findings if counted(f) >= Severity.UNKNOWN or f.waived]
    if wrong:
        yield from ("", f"## {_words(title(area))}")
    for finding in wrong:
        mark = _words("[~]") if finding.waived else MARKS[finding.severity]
        waived = f" *{say('waived ')}{_words(finding.waived)}*" if finding.waived else ""
        yield from (
            "",
            f"**{mark} {_words(finding.name)}**{say(': ')}{_words(finding.seen)}{waived}",
        )
        if finding.evidence:
            yield from _code(finding.evidence)
        if finding.remedy:
            yield from ("", _words(finding.remedy.words))
            if finding.remedy.commands:
                yield from _code(finding.remedy.commands)


def _code(lines: Iterable[str]) -> Iterator[str]:
    """A fence longer than any in the text."""
    shown = [safe(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", f"{fence}text", *shown, fence)


def _words(text: str) -> str:
    return _NUMBERED.sub(r"\1\\", _SPECIAL.sub(r"\\\1", safe(text)))

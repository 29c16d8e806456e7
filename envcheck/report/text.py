"""For people, in a terminal: a line an area, details where something is wrong, then the verdict and the next step.

After flutter doctor's manner.  What a tool printed is shown without its control characters: a recording may come from a
stranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from envcheck.core.facts import Facts
from envcheck.core.language import say
from envcheck.core.language.width import columns, wrap
from envcheck.core.model import Finding, Status
from envcheck.core.text import plain
from envcheck.report.style import Style
from envcheck.report.summary import (
    COUNTED,
    Report,
    aside,
    blocking,
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
from envcheck.vendors import VENDORS

if TYPE_CHECKING:
    from envcheck.core.check import Check


def render(report: Report) -> str:
    style = report.style or Style()
    areas = groupby(report.findings, key=lambda f: f.name.partition(".")[0])
    blocked = group_blocked(report.findings)
    lines = [line for area, some in areas for line in _area(area, list(some), blocked, style)]
    text = "\n".join([*_wrapped(_first_line(report), style, ""), "", *lines, "", *_end(report, style)])
    return (text if style.unicode else _ascii(text)) + "\n"


def as_text(findings: Sequence[Finding], facts: Facts, style: Style | None = None) -> str:
    return render(Report(findings, facts, style=style))


def _first_line(report: Report) -> str:
    assumed = f"{say('; ')}{safe(say(report.assumed_host))}" if report.assumed_host else ""
    return f"{head(report.facts)}{assumed}"


def listing(width: int, own: tuple[Check, ...] = ()) -> str:
    """--list-checks; `own` are the site's."""
    from envcheck.deep import table
    from envcheck.report.check_list import listed

    checks = listed(own)
    names = [safe(c.name) for c in checks]
    wide = max(map(len, names)) + 2
    whom = [f"{c.applies_to}{', with --deep' if c.area == table.AREA else ''}" for c in checks]
    told = [f"{safe(say(' '.join(c.says.split())))} [{say(one)}]" for c, one in zip(checks, whom, strict=True)]
    rows = [wrap(words, max(30, width - wide)) for words in told]
    return "\n".join(
        line
        for name, row in zip(names, rows, strict=True)
        for line in (f"{name:{wide}}{row[0]}", *(" " * wide + more for more in row[1:]))
    )


def _area(area: str, findings: list[Finding], blocked: dict[str, list[str]], style: Style) -> Iterator[str]:
    said = f"{title(area)}{say(': ')}{area_line(findings)}"
    yield from _wrapped(said, style, f"{style.mark(area_state(findings))} ", 4)
    for alike in _alike([f for f in findings if counted(f).is_problem]):
        yield from _details(alike, list(dict.fromkeys(n for f in alike for n in blocked.get(f.name, ()))), style)
    for finding in (f for f in findings if f.waived):
        yield from _wrapped(
            f"{safe(finding.name)}{say(': ')}{safe(finding.seen)}{say('; waived ')}{safe(finding.waived)}",
            style,
            "    [~] ",
            8,
        )


def _alike(wrong: list[Finding]) -> list[list[Finding]]:
    """Findings that say the same in all but their names, together: a question that failed is told once."""
    groups: dict[Finding, list[Finding]] = {}
    for finding in wrong:
        groups.setdefault(replace(finding, name="", source=""), []).append(finding)
    return list(groups.values())


def area_state(findings: Sequence[Finding]) -> Status:
    """The worst, with what is blocked: an area that was not checked in part is not well."""
    return max(map(counted, findings))


def area_line(findings: Sequence[Finding]) -> str:
    """What the area's line says: what it is when all is well, else how many checks say what."""
    judged = [f for f in findings if f.status not in (Status.NOT_APPLICABLE, Status.BLOCKED) and not f.waived]
    blocked = [f for f in findings if f.status is Status.BLOCKED]
    if not judged and not blocked:
        return safe(findings[0].seen)
    if blocked and not any(f.status.is_problem for f in judged):
        causes = ", ".join(dict.fromkeys(cause for f in blocked for cause in blocking(f)))
        left = say(f"{len(blocked)} not checked because {causes} failed")
        return say(", ").join(([say(f"{len(judged)} passed")] if judged else []) + [left])
    if wrong := _counted_problems(judged):
        return say(", ").join(wrong + ([say(f"{len(blocked)} not checked")] if blocked else []))
    first = [f.seen for f in judged if f.name in HEADLINES] or [judged[0].seen]
    many = say(f"{len(judged)} {'check' if len(judged) == 1 else 'checks'}")
    return f"{say('; ').join(map(safe, first))}{aside(many)}"


def _counted_problems(judged: Sequence[Finding]) -> list[str]:
    """As in "1 of 16 checks failed", "2 warnings"."""
    found = [(s, n) for s in PROBLEMS if (n := sum(f.status is s for f in judged))]
    if not found:
        return []
    (worst, first), *others = found
    if len(judged) == 1:
        return [say(ALONE[worst])]
    one, many = PROBLEMS[worst]
    head = say(f"{first} of {len(judged)} checks {one if first == 1 else many}")
    return [head, *(say(f"{n} {COUNTED[status][n != 1]}") for status, n in others)]


PROBLEMS = {
    Status.FAIL: ("failed", "failed"),
    Status.WARN: ("has a warning", "have warnings"),
    Status.UNKNOWN: ("is unknown", "are unknown"),
}
ALONE = {Status.FAIL: "failed", Status.WARN: "has a warning", Status.UNKNOWN: "unknown"}


# Whose words an area's line borrows when all is well.
HEADLINES = (
    "driver.version",
    "devices.present",
    "links.topology",
    "toolkit.version",
    "network.own_name",
    "host.memory",
    "engine.reachable",
    "python.version",
    "job.device",
)


def _details(alike: list[Finding], blocked: list[str], style: Style) -> Iterator[str]:
    device = aside(say(VENDORS[alike[0].device].title)) if alike[0].device in VENDORS else ""
    names = ", ".join(dict.fromkeys(safe(f.name) for f in alike))
    first, *more = problems(alike[0])
    yield from _seen(f"{names}{device}", first, style)
    if blocked:
        words = f"{say('Not checked until this is fixed: ')}{', '.join(blocked)}"
        yield from _wrapped(words, style, "        ", 8)
    yield from _remedied(first, style)
    for part in more:
        yield from _seen(f"{names}{device}", part, style)
        yield from _remedied(part, style)


def _seen(where: str, finding: Finding, style: Style) -> Iterator[str]:
    lead = f"    {style.mark(finding.status)} "
    yield from _wrapped(f"{where}{say(': ')}{safe(finding.seen)}", style, lead, 8)
    for line in filter(None, map(_squeezed, finding.evidence)):
        if line.startswith("$ "):  # the whole command stands in --json
            yield f"        | {line if len(line) <= style.width - 10 else line[: style.width - 14] + ' ...'}"
        else:
            yield from _wrapped(line, style, "        | ", 10)


def _remedied(finding: Finding, style: Style) -> Iterator[str]:
    if finding.remedy:
        yield from _wrapped(safe(finding.remedy.words), style, "        ", 8)
        yield from (f"          {safe(command)}" for command in finding.remedy.commands)  # never wrapped: for pasting


def _squeezed(line: str) -> str:
    """A table's row without its blanks, which would be wrapped into a riddle."""
    return " ".join(safe(line).split())


def _end(report: Report, style: Style) -> Iterator[str]:
    findings, facts = report.findings, report.facts
    worst, told, step = verdict(findings), counts(findings), next_step(findings)
    yield from _wrapped(f"{summary(findings)}{aside(told) if told else ''}", style, f"{style.mark(worst)} ", 4)
    if step:
        words, _, command = step.partition("\n")
        yield from _wrapped(words, style, say("Next: "), 6)
        if command:
            yield f"          {command}"
    elif worst is Status.NOT_APPLICABLE:
        yield f"{say('Next: ')}envcheck doctor --list-checks"
    else:
        if not report.next_command.command.startswith("envcheck train"):
            yield from _wrapped(say(report.next_command.words), style, say("Next: "), 6)
            yield f"          {report.next_command.command}"
        else:
            yield f"{say('Next: ')}{report.next_command.command}"
        if not facts.wanted:
            under = " " * columns(say("Next: "))
            yield from _wrapped(say("or ask about your own job, with --model and --method"), style, under, len(under))


def _wrapped(text: str, style: Style, lead: str, indent: int = 0) -> list[str]:
    """Lines no wider than the terminal; colours take no room, so they are measured without."""
    bare = plain(lead)
    wide = columns(bare)
    pad = " " * max(indent, wide if indent else 0)
    if indent > wide:
        first, *rest = wrap(text, style.width, bare, pad) or [bare.rstrip()]
        return [lead + first[len(bare) :], *rest]
    lines = wrap(text, max(20, style.width - wide))
    return [lead + lines[0], *(pad + line for line in lines[1:])] if lines else [lead.rstrip()]


def _ascii(text: str) -> str:
    return text.replace("×", "x").encode("ascii", "replace").decode()

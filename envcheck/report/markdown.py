"""For an issue or a chat: GitHub's Markdown; what a tool printed stands in code, where it can mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from envcheck.core.facts import VendorFacts
from envcheck.core.findings import label
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.model import Finding, Status
from envcheck.report.contents import FindingGroup, HostReport, Report, group_findings, problems
from envcheck.report.style import MARKS
from envcheck.report.summary import (
    advise,
    aside,
    common_rows,
    counted,
    group_blocked,
    head,
    safe,
    summary,
    tally,
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
    words, command = advise(report)
    lines = [
        f"# {_words(head(report))}",
        "",
        f"**{MARKS[verdict(report.findings)]} {_words(summary(report.findings))}**{tally(report)}",
        "",
        f"{say('Next: ')}{_words(words)}",
        *(_code([command]) if command else ()),
        *(_of_machine(report.local) if report.local else _of_hosts(report)),
    ]
    return "\n".join(lines) + "\n"


def _of_machine(host: HostReport) -> Iterator[str]:
    areas = [(a, list(some)) for a, some in groupby(host.findings, key=lambda f: f.name.partition(".")[0])]
    blocked = group_blocked(host.findings)
    yield ""
    yield f"| | {say('area')} | {' | '.join(say(word) for word in COLUMNS.values())} |"
    yield f"| --- | --- |{' ---: |' * len(COLUMNS)}"
    yield from (_row(area, some) for area, some in areas)
    yield from (line for v in host.facts.vendors for line in _cards(v))
    yield from (line for area, some in areas for line in _area(area, some, blocked))


def _of_hosts(report: Report) -> Iterator[str]:
    table = [f"| {' | '.join(map(_words, row))} |" for row in common_rows(report)]
    wrong = [f for f in report.shared if f.status.is_problem]
    tried = [f"* {_words(f.name)}{say(': ')}{_words(f.seen)}" for f in report.shared if not f.status.is_problem]
    odd = [line for f in wrong for part in problems(f) for line in _problem(part, ())]
    groups = [line for group in group_findings(report.hosts) for line in _group(group)]
    common = ["", "| | | |", "| --- | --- | --- |", *table] if table else []
    for title_, lines in (("Common", common), ("Odd ones", odd), ("Hosts", groups)):
        yield from ("", f"## {_words(say(title_))}", *lines) if lines else ()
    yield from ("", f"## {_words(say('Between the hosts'))}", "", *tried) if tried else ()


def _group(group: FindingGroup) -> Iterator[str]:
    """What the hosts have, with its wordings where there are several."""
    several = len(group.seen) > 1
    yield from _problem(replace(group.finding, seen="") if several else group.finding, (), fold_hosts(group.hosts))
    if several:
        yield ""
        for seen, hosts in group.seen.items():
            yield f"* {_words(fold_hosts(hosts))}{say(': ')}{_words(seen)}"


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


def _problem(finding: Finding, blocks: Sequence[str], hosts: str = "") -> Iterator[str]:
    where = f"{_words(hosts)}{say(': ')}" if hosts else ""
    waived = f" *{say('waived ')}{_words(finding.waived)}*" if finding.waived else ""
    seen = f"{say(': ')}{_words(finding.seen)}" if finding.seen else ""
    yield from ("", f"{where}{heading(finding)}{seen}{waived}")
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

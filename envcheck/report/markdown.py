"""GitHub Markdown for an issue or a chat; output of tools is quoted as code, so that it cannot act as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from envcheck.core.facts import VendorFacts
from envcheck.core.findings import device_label
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import translate
from envcheck.core.messages import _, join, verbatim
from envcheck.core.model import Finding, Status
from envcheck.report.contents import DoctorReport, FindingGroup, HostReport, group_findings, list_problems
from envcheck.report.plain_text import area_state
from envcheck.report.style import MARKS
from envcheck.report.summary import (
    BLOCKED_NAMES_LIMIT,
    add_parentheses,
    choose_advice,
    decide_verdict,
    describe_blocked,
    effective_status,
    format_headline,
    format_tally,
    get_area_title,
    group_blocked,
    list_blockers,
    list_common_values,
    safe,
    summarise_findings,
)
from envcheck.vendors import VENDORS

# Status -> column header
COLUMNS = {
    Status.OK: _("passed"),
    Status.FAIL: _("failed"),
    Status.WARN: _("warnings"),
    Status.UNKNOWN: _("unknown"),
    Status.BLOCKED: _("not checked"),
    Status.NOT_APPLICABLE: _("not applicable"),
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&]|^[#+-])")
_NUMBERED = re.compile(r"^(\d+)(?=[.)])")


def render(report: DoctorReport) -> str:
    """Return the report as Markdown."""
    words, command = choose_advice(report)
    lines = [
        f"# {_escape_text(format_headline(report))}",
        "",
        f"**{MARKS[decide_verdict(report.findings)]} {_escape_text(summarise_findings(report.findings))}**"
        f"{format_tally(report)}",
        "",
        translate(_("Next: {step}", step=_escape_text(words))),
        *(_render_code([command]) if command else ()),
        *(_render_machine(report.local_host) if report.local_host else _render_hosts(report)),
    ]
    return "\n".join(lines) + "\n"


def _render_machine(host: HostReport) -> Iterator[str]:
    areas = [(a, list(some)) for a, some in groupby(host.findings, key=lambda f: f.name.partition(".")[0])]
    blocked = group_blocked(host.findings)
    yield ""
    yield f"| | {translate(_('area'))} | {' | '.join(translate(word) for word in COLUMNS.values())} |"
    yield f"| --- | --- |{' ---: |' * len(COLUMNS)}"
    yield from (_render_row(area, some) for area, some in areas)
    yield from (line for v in host.facts.vendors for line in _render_cards(v))
    yield from (line for area, some in areas for line in _render_area(area, some, blocked))


def _render_hosts(report: DoctorReport) -> Iterator[str]:
    table = [f"| {' | '.join(map(_escape_text, row))} |" for row in list_common_values(report)]
    wrong = [f for f in report.shared if f.status.is_problem]
    tried = [
        f"* {_place(_escape_text(f.name), _escape_text(f.seen))}" for f in report.shared if not f.status.is_problem
    ]
    odd = [line for f in wrong for part in list_problems(f) for line in _render_problem(part, ())]
    groups = [line for group in group_findings(report.hosts) for line in _render_group(group)]
    common = ["", "| | | |", "| --- | --- | --- |", *table] if table else []
    for title_, lines in ((_("Common values"), common), (_("Differences"), odd), (_("Hosts"), groups)):
        yield from ("", f"## {_escape_text(translate(title_))}", *lines) if lines else ()
    yield from ("", f"## {_escape_text(translate(_('Tests between hosts')))}", "", *tried) if tried else ()


def _render_group(group: FindingGroup) -> Iterator[str]:
    """A finding of several hosts, with its wordings if they differ."""
    several = len(group.seen) > 1
    yield from _render_problem(
        replace(group.finding, seen=verbatim("")) if several else group.finding, (), fold_hosts(group.hosts)
    )
    if several:
        yield ""
        for seen, hosts in group.seen.items():
            yield f"* {_place(_escape_text(fold_hosts(hosts)), _escape_text(seen))}"


def _place(place: str, text: str) -> str:
    return translate(_("{place}: {text}", place=place, text=text))


def _render_row(area: str, findings: list[Finding]) -> str:
    figures = " | ".join(str(sum(effective_status(f) is status for f in findings)) for status in COLUMNS)
    return f"| {MARKS[area_state(findings)]} | {_escape_text(get_area_title(area))} | {figures} |"


def _render_cards(v: VendorFacts) -> Iterator[str]:
    if not v.devices:
        return
    yield from ("", f"## {_escape_text(translate(v.vendor.title))}", "")
    columns = (
        _("device"),
        _("name"),
        _("health"),
        _("memory used / total, MiB"),
        _("temperature, °C"),
        _("power, W"),
        _("utilization, %"),
    )
    yield f"| {' | '.join(map(translate, columns))} |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: |"
    for d in v.devices:
        memory = f"{_format_figure(d.memory_used_mib)} / {_format_figure(d.memory_total_mib)}"
        figures = " | ".join(map(_format_figure, (d.temperature_c, d.power_w, d.utilization_percent)))
        name, health = _escape_text(d.name or "") or "-", _escape_text(d.health or "") or "-"
        yield f"| {device_label(d)} | {name} | {health} | {memory} | {figures} |"


def _format_figure(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _render_area(area: str, findings: list[Finding], blocked: Mapping[str, Sequence[str]]) -> Iterator[str]:
    wrong = [f for f in findings if f.status.is_problem]
    left = [f for f in findings if f.status is Status.BLOCKED]
    if wrong or left:
        yield from ("", f"## {_escape_text(get_area_title(area))}")
    for finding in wrong:
        for n, part in enumerate(list_problems(finding)):
            yield from _render_problem(part, blocked.get(finding.name, ()) if n == 0 else ())
    if len(left) > BLOCKED_NAMES_LIMIT:
        causes = dict.fromkeys(cause for f in left for cause in list_blockers(f))
        words = _("{count} not checked because of {causes}", count=len(left), causes=join(", ", causes))
        yield from ("", f"* {_escape_text(translate(words))}")
    elif left:
        yield from ("", *(f"* {_place(render_heading(f), _escape_text(f.seen))}" for f in left))


def _render_problem(finding: Finding, blocks: Sequence[str], hosts: str = "") -> Iterator[str]:
    line = _place(render_heading(finding), _escape_text(finding.seen)) if finding.seen else render_heading(finding)
    line = _place(_escape_text(hosts), line) if hosts else line
    if finding.waived:
        line += f" *{translate(_('waived {reason}', reason=_escape_text(finding.waived)))}*"
    yield from ("", line)
    if finding.evidence:
        yield from _render_code(finding.evidence)
    if blocks:
        yield from ("", _escape_text(translate(describe_blocked(blocks))))
    if finding.remedy:
        yield from ("", f"**{translate(finding.remedy.label).strip()}** {_escape_text(finding.remedy.words)}")
        if finding.remedy.commands:
            yield from _render_code(finding.remedy.commands)


def render_heading(finding: Finding) -> str:
    """Return mark and name, with the vendor if the check concerns its devices."""
    mark = f"{MARKS[finding.status]} {_escape_text('[~]')}" if finding.waived else MARKS[finding.status]
    device = (
        add_parentheses(_escape_text(translate(VENDORS[finding.device].title))) if finding.device in VENDORS else ""
    )
    return f"**{mark} {_escape_text(finding.name)}**{device}"


def _render_code(lines: Iterable[str]) -> Iterator[str]:
    """A fence that is longer than any fence in the text."""
    shown = [safe(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", f"{fence}text", *shown, fence)


def _escape_text(text: str) -> str:
    return _NUMBERED.sub(r"\1\\", _SPECIAL.sub(r"\\\1", safe(text)))

"""The terminal report: details of problems, the verdict and the next step, after the example of flutter doctor.

Control characters in the output of tools are removed: a recording may come from a stranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from envcheck.core.host_names import name_hosts
from envcheck.core.language import translate
from envcheck.core.language.width import display_width, wrap_text
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.core.model import Finding, Status
from envcheck.core.tool_text import strip_escapes
from envcheck.report.contents import DoctorReport, FindingGroup, HostReport, group_findings, list_problems
from envcheck.report.style import Style
from envcheck.report.summary import (
    add_parentheses,
    choose_advice,
    count_status,
    decide_verdict,
    describe_blocked,
    effective_status,
    format_headline,
    format_tally,
    get_area_title,
    group_blocked,
    list_blockers,
    list_common_values,
    next_step,
    safe,
    summarise_findings,
)
from envcheck.vendors import VENDORS

COUNTED_ROWS = {
    "fleet.packages": _("packages"), "fleet.mtu": _("MTUs"), "fleet.image": _("images"),
    "fleet.environment": _("environment variables"),
}  # fmt: skip
WORDINGS, EVIDENCE_LIMIT = 3, 4  # hosts of one finding


def render(report: DoctorReport) -> str:
    """Return the report for the terminal that `report.style` describes."""
    first = format_headline(report)
    if report.assumed_host:
        first = translate(_("{head}; {assumed_host}", head=first, assumed_host=safe(translate(report.assumed_host))))
    body = _render_machine(report, report.local_host) if report.local_host else _render_hosts(report)
    text = "\n".join([*_wrap_text(first, report.style, ""), "", *body]).rstrip() + "\n"
    return report.style.fit(text)


def _render_machine(report: DoctorReport, host: HostReport) -> Iterator[str]:
    """One line per area with its problems below it; the verdict is last, next to the prompt."""
    blocked = group_blocked(host.findings)
    for area, some in groupby(host.findings, key=lambda f: f.name.partition(".")[0]):
        yield from _render_area(area, list(some), blocked, report.style)
    yield from ("", *_render_verdict(report))
    step, under = next_step(host.findings), " " * display_width(translate(_("Next: ")))
    if not step and decide_verdict(host.findings) is not Status.NOT_APPLICABLE and not host.facts.wanted:
        words = translate(_("or check a specific job with --model and --method"))
        yield from _wrap_text(words, report.style, under, len(under))


def _render_hosts(report: DoctorReport) -> Iterator[str]:
    """The verdict first; then shared findings, once."""
    style = report.style
    yield from (*_render_verdict(report), "", *_render_common_values(report, style))
    odd = [line for f in report.shared for part in list_problems(f) for line in _render_problem(f.name, part, style)]
    tried = [line for f in report.shared if not f.status.is_problem for line in _render_problem(f.name, f, style)]
    groups = [line for group in group_findings(report.hosts) for line in _render_group(group, style)]
    for title_, lines in ((_("Differences"), odd), (_("Tests between hosts"), tried), (_("Hosts"), groups)):
        yield from (translate(title_), *lines, "") if lines else ()


def _render_verdict(report: DoctorReport) -> Iterator[str]:
    style, (words, command) = report.style, choose_advice(report)
    mark = f"{style.render_mark(decide_verdict(report.findings))} "
    yield from _wrap_text(f"{summarise_findings(report.findings)}{format_tally(report)}", style, mark, 4)
    if command.startswith("envcheck train"):
        yield translate(_("Next: {step}", step=command))
        return
    yield from _wrap_text(words, style, translate(_("Next: ")), 6)
    if command:
        yield f"          {command}"


def _render_common_values(report: DoctorReport, style: Style) -> Iterator[str]:
    """The most common values, one row per subject; for packages and the like the number of equal ones."""
    pairs = [(subject, f"{value}  {hosts}") for subject, value, hosts in list_common_values(report)]
    if not pairs:
        return
    same = {what: sum(v.name == name and v.is_unanimous for v in report.votes) for name, what in COUNTED_ROWS.items()}
    pairs += [(translate(what), translate(_("{n} identical", n=n))) for what, n in same.items() if n]
    wide = max(display_width(subject) for subject, _unused in pairs)
    yield translate(_("Common values"))
    for subject, value in pairs:
        yield from _wrap_text(value, style, f"    {subject}{' ' * (wide - display_width(subject))}  ")
    yield ""


def _render_group(group: FindingGroup, style: Style) -> Iterator[str]:
    """One wording on one line; several, each with its hosts."""
    where, f = _place(safe(translate(name_hosts(group.hosts))), safe(group.finding.name)), group.finding
    if len(group.seen) == 1:
        yield from _render_problem(where, f, style, EVIDENCE_LIMIT)
        return
    yield from _wrap_text(translate(_("{place}:", place=where)), style, f"    {style.render_mark(f.status)} ", 8)
    for seen, hosts in list(group.seen.items())[:WORDINGS]:
        yield from _wrap_text(_place(safe(translate(name_hosts(hosts))), safe(seen)), style, "        ", 8)
    if len(group.seen) > WORDINGS:
        yield f"        {translate(_('{count} more variants; see --json', count=len(group.seen) - WORDINGS))}"
    yield from _render_evidence(f.evidence[:EVIDENCE_LIMIT], style)
    yield from _render_remedy(f, style)


def _render_area(area: str, findings: list[Finding], blocked: dict[str, list[str]], style: Style) -> Iterator[str]:
    said = _place(get_area_title(area), describe_area(findings))
    yield from _wrap_text(said, style, f"{style.render_mark(area_state(findings))} ", 4)
    for alike in _group_identical([f for f in findings if effective_status(f).is_problem]):
        yield from _render_details(alike, list(dict.fromkeys(n for f in alike for n in blocked.get(f.name, ()))), style)
    for finding in (f for f in findings if f.waived):
        yield from _wrap_text(
            translate(
                _(
                    "{name}: {seen} (waived {reason})",
                    name=safe(finding.name),
                    seen=safe(finding.seen),
                    reason=safe(finding.waived),
                )
            ),
            style,
            "    [~] ",
            8,
        )


def _group_identical(wrong: list[Finding]) -> list[list[Finding]]:
    """Findings that differ only in their names, together: a failed query is reported once."""
    groups: dict[Finding, list[Finding]] = {}
    for finding in wrong:
        groups.setdefault(replace(finding, name="", source=""), []).append(finding)
    return list(groups.values())


def area_state(findings: Sequence[Finding]) -> Status:
    """Return the worst status, blocked included: a partly checked area has not passed."""
    return max(map(effective_status, findings))


def describe_area(findings: Sequence[Finding]) -> str:
    """Return an area's summary: its characteristic value if all checks passed, otherwise counts by status."""
    judged = [f for f in findings if f.status not in (Status.NOT_APPLICABLE, Status.BLOCKED) and not f.waived]
    blocked = [f for f in findings if f.status is Status.BLOCKED]
    if not judged and not blocked:
        return safe(findings[0].seen)
    if blocked and not any(f.status.is_problem for f in judged):
        causes = join(", ", dict.fromkeys(cause for f in blocked for cause in list_blockers(f)))
        left = _("{count} not checked because of {causes}", count=len(blocked), causes=causes)
        return translate(join(", ", [*([count_status(Status.OK, len(judged))] if judged else []), left]))
    if wrong := _count_problems(judged):
        return translate(join(", ", [*wrong, *([count_status(Status.BLOCKED, len(blocked))] if blocked else [])]))
    first = [f.seen for f in judged if f.name in HEADLINES] or [judged[0].seen]
    many = translate(ngettext("{count} check", "{count} checks", len(judged)))
    return f"{translate(join('; ', map(safe, first)))}{add_parentheses(many)}"


def _place(place: str, text: str) -> str:
    return translate(_("{place}: {text}", place=place, text=text))


def _count_problems(judged: Sequence[Finding]) -> list[Message]:
    """For example "1 of 16 checks failed", "2 warnings"."""
    found = [(s, n) for s in PROBLEMS if (n := sum(f.status is s for f in judged))]
    if not found:
        return []
    (worst, first), *others = found
    if len(judged) == 1:
        return [ALONE[worst]]
    return [_of_checks(worst, first, len(judged)), *(count_status(status, n) for status, n in others)]


def _of_checks(status: Status, count: int, checks: int) -> Message:
    if status is Status.WARN:
        return ngettext(
            "{count} of {checks} checks has a warning", "{count} of {checks} checks have warnings", count, checks=checks
        )
    if status is Status.UNKNOWN:
        return ngettext(
            "{count} of {checks} checks could not run", "{count} of {checks} checks could not run", count, checks=checks
        )
    return _("{count} of {checks} checks failed", count=count, checks=checks)


PROBLEMS = (Status.FAIL, Status.WARN, Status.UNKNOWN)
ALONE = {Status.FAIL: _("failed"), Status.WARN: _("warning"), Status.UNKNOWN: _("unknown")}


# The check whose result summarises an area without problems.
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


def _render_details(alike: list[Finding], blocked: list[str], style: Style) -> Iterator[str]:
    device = add_parentheses(translate(VENDORS[alike[0].device].title)) if alike[0].device in VENDORS else ""
    where = f"{translate(join(', ', dict.fromkeys(safe(f.name) for f in alike)))}{device}"
    first, *more = list_problems(alike[0])
    yield from _render_observation(where, first, style)
    if blocked:
        yield from _wrap_text(translate(describe_blocked(blocked, style.is_verbose)), style, "        ", 8)
    yield from _render_remedy(first, style)
    for part in more:
        yield from _render_problem(where, part, style)


def _render_problem(where: str, part: Finding, style: Style, evidence_limit: int | None = None) -> Iterator[str]:
    yield from _render_observation(where, part, style, evidence_limit)
    yield from _render_remedy(part, style)


def _render_observation(where: str, part: Finding, style: Style, evidence_limit: int | None = None) -> Iterator[str]:
    yield from _wrap_text(_place(where, safe(part.seen)), style, f"    {style.render_mark(part.status)} ", 8)
    yield from _render_evidence(part.evidence[:evidence_limit], style)


def _render_evidence(lines: Sequence[str], style: Style) -> Iterator[str]:
    for line in filter(None, map(_squeeze_blanks, lines)):
        if line.startswith("$ "):  # --json has the complete command
            yield f"        | {line if len(line) <= style.width - 10 else line[: style.width - 14] + ' ...'}"
        else:
            yield from _wrap_text(line, style, "        | ", 10)


def _render_remedy(finding: Finding, style: Style) -> Iterator[str]:
    if finding.remedy:
        words = f"{translate(finding.remedy.label)}{safe(finding.remedy.words)}"
        yield from _wrap_text(words, style, "        ", 8)
        yield from (
            f"          {safe(command)}" for command in finding.remedy.commands
        )  # never wrapped, so that it can be pasted


def _squeeze_blanks(line: str) -> str:
    """A table row with single blanks, because padding does not survive line wrapping."""
    return " ".join(safe(line).split())


def _wrap_text(text: str, style: Style, lead: str, indent: int = 0) -> list[str]:
    """Lines no wider than the terminal; measured without colours, which take no space."""
    bare = strip_escapes(lead)
    wide = display_width(bare)
    pad = " " * max(indent, wide if indent else 0)
    if indent > wide:
        first, *rest = wrap_text(text, style.width, bare, pad) or [bare.rstrip()]
        return [lead + first[len(bare) :], *rest]
    lines = wrap_text(text, max(20, style.width - wide))
    return [lead + lines[0], *(pad + line for line in lines[1:])] if lines else [lead.rstrip()]

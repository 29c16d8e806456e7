"""For people, in a terminal: details where something is wrong, the verdict and the next step.

After flutter doctor's manner.  What a tool printed is shown without its control characters: a recording may come from a
stranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.language.width import columns, wrap
from envcheck.core.model import Finding, Status
from envcheck.core.text import plain
from envcheck.report.contents import FindingGroup, HostReport, Report, group_findings, problems
from envcheck.report.style import Style
from envcheck.report.summary import (
    COUNTED,
    advise,
    aside,
    blocking,
    common_rows,
    counted,
    group_blocked,
    head,
    next_step,
    safe,
    summary,
    tally,
    title,
    verdict,
)
from envcheck.vendors import VENDORS

COUNTED_ROWS = {
    "fleet.packages": "packages", "fleet.mtu": "MTUs", "fleet.image": "images", "fleet.environment": "variables"
}  # fmt: skip
WORDINGS, EVIDENCE_LIMIT = 3, 4  # of a finding that several hosts have


def render(report: Report) -> str:
    first = f"{head(report)}{say('; ') + safe(say(report.assumed_host)) if report.assumed_host else ''}"
    body = _of_machine(report, report.local) if report.local else _of_hosts(report)
    text = "\n".join([*_wrapped(first, report.style, ""), "", *body]).rstrip() + "\n"
    return text if report.style.unicode else _ascii(text)


def _of_machine(report: Report, host: HostReport) -> Iterator[str]:
    """A line an area, with what is amiss under it; the verdict is last, where the eye is."""
    blocked = group_blocked(host.findings)
    for area, some in groupby(host.findings, key=lambda f: f.name.partition(".")[0]):
        yield from _area(area, list(some), blocked, report.style)
    yield from ("", *_verdict(report))
    step, under = next_step(host.findings), " " * columns(say("Next: "))
    if not step and verdict(host.findings) is not Status.NOT_APPLICABLE and not host.facts.wanted:
        words = say("or ask about your own job, with --model and --method")
        yield from _wrapped(words, report.style, under, len(under))


def _of_hosts(report: Report) -> Iterator[str]:
    """The verdict is first; then what hosts share, once."""
    style = report.style
    yield from (*_verdict(report), "", *_common(report, style))
    odd = [line for f in report.shared for part in problems(f) for line in _problem(f.name, part, style)]
    tried = [line for f in report.shared if not f.status.is_problem for line in _problem(f.name, f, style)]
    groups = [line for group in group_findings(report.hosts) for line in _group(group, style)]
    for title_, lines in (("Odd ones", odd), ("Between the hosts", tried), ("Hosts", groups)):
        yield from (say(title_), *lines, "") if lines else ()


def _verdict(report: Report) -> Iterator[str]:
    style, (words, command) = report.style, advise(report)
    mark = f"{style.mark(verdict(report.findings))} "
    yield from _wrapped(f"{summary(report.findings)}{tally(report)}", style, mark, 4)
    if command.startswith("envcheck train"):
        yield f"{say('Next: ')}{command}"
        return
    yield from _wrapped(words, style, say("Next: "), 6)
    if command:
        yield f"          {command}"


def _common(report: Report, style: Style) -> Iterator[str]:
    """What most hosts have, a row a subject; of packages and the like how many are equal."""
    told = [(subject, f"{value}  {hosts}") for subject, value, hosts in common_rows(report)]
    if not told:
        return
    same = {what: sum(v.name == name and v.agreed for v in report.votes) for name, what in COUNTED_ROWS.items()}
    told += [(say(what), say(f"{n} alike")) for what, n in same.items() if n]
    wide = max(columns(subject) for subject, _ in told)
    yield say("Common")
    for subject, value in told:
        yield from _wrapped(value, style, f"    {subject}{' ' * (wide - columns(subject))}  ")
    yield ""


def _group(group: FindingGroup, style: Style) -> Iterator[str]:
    """One wording in a line; of several each with its hosts."""
    where, f = f"{safe(fold_hosts(group.hosts))}{say(': ')}{safe(group.finding.name)}", group.finding
    if len(group.seen) == 1:
        yield from _problem(where, f, style, EVIDENCE_LIMIT)
        return
    yield from _wrapped(f"{where}{say(':')}", style, f"    {style.mark(f.status)} ", 8)
    for seen, hosts in list(group.seen.items())[:WORDINGS]:
        yield from _wrapped(f"{safe(fold_hosts(hosts))}{say(': ')}{safe(seen)}", style, "        ", 8)
    if len(group.seen) > WORDINGS:
        yield f"        {say(f'and {len(group.seen) - WORDINGS} more wordings, in --json')}"
    yield from _evidence(f.evidence[:EVIDENCE_LIMIT], style)
    yield from _remedied(f, style)


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
    where = f"{', '.join(dict.fromkeys(safe(f.name) for f in alike))}{device}"
    first, *more = problems(alike[0])
    yield from _seen(where, first, style)
    if blocked:
        words = f"{say('Not checked until this is fixed: ')}{', '.join(blocked)}"
        yield from _wrapped(words, style, "        ", 8)
    yield from _remedied(first, style)
    for part in more:
        yield from _problem(where, part, style)


def _problem(where: str, part: Finding, style: Style, evidence_limit: int | None = None) -> Iterator[str]:
    yield from _seen(where, part, style, evidence_limit)
    yield from _remedied(part, style)


def _seen(where: str, part: Finding, style: Style, evidence_limit: int | None = None) -> Iterator[str]:
    yield from _wrapped(f"{where}{say(': ')}{safe(part.seen)}", style, f"    {style.mark(part.status)} ", 8)
    yield from _evidence(part.evidence[:evidence_limit], style)


def _evidence(lines: Sequence[str], style: Style) -> Iterator[str]:
    for line in filter(None, map(_squeezed, lines)):
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

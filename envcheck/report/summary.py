"""What all reports share: the verdict, the exit code, the next step, area titles, and sanitised text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from envcheck.core.errors import CHECK_FAILED, SUCCESS, UNDETERMINED, outcome_fields
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.host_names import name_hosts
from envcheck.core.language import translate
from envcheck.core.language.width import remove_extra_blanks
from envcheck.core.lint.own_job import UNKNOWN_NAME
from envcheck.core.messages import Message, _, fill, join, mark, ngettext
from envcheck.core.model import Finding, Status, manual
from envcheck.core.tool_text import strip_escapes
from envcheck.report.contents import DoctorReport, HostReport, group_findings

TEXT_LIMIT = 400
AMONG_HOSTS = "fleet"  # the area of findings from the comparison of hosts
TITLES = {
    "driver": _("Driver and vendor tool"),
    "devices": _("Devices"),
    "links": _("Links between devices"),
    "toolkit": _("Toolkit"),
    "network": _("Network"),
    "host": _("Host"),
    "engine": _("Container engine"),
    "python": _("Python and packages"),
    "job": _("Job"),
    "deep": _("Active tests"),
    "own": _("Custom checks"),
    "fleet": _("Host comparison"),
}
# Votes with their own row; of packages, variables and interfaces, only those that differ are listed.
COMMON = ("fleet.cards", "fleet.driver", "fleet.firmware", "fleet.toolkit", "fleet.architecture", "fleet.os",
          "fleet.kernel", "fleet.numa", "fleet.python", "fleet.ports",
          "fleet.tls", "fleet.rank_table", "fleet.synchronised")  # fmt: skip
# Checks that block others: shown first.
ROOTS = ("driver.tool", "driver.whole_answer", "job.device", "devices.present", "engine.reachable")
_SENTENCE = re.compile(r".*?(?:[.](?=\s|$)|。)|.+")
# Bidirectional overrides can disguise text; isprintable covers all other unprintable characters.
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def decide_verdict(findings: Iterable[Finding]) -> Status:
    """Return the worst status; blocked checks count with their cause.  NOT_APPLICABLE if no check applied."""
    statuses = {effective_status(f) for f in findings}
    if statuses <= {Status.NOT_APPLICABLE}:
        return Status.NOT_APPLICABLE
    return max(statuses - {Status.NOT_APPLICABLE, Status.BLOCKED} or {Status.UNKNOWN})


def exit_code(findings: Sequence[Finding], strict: bool = False) -> int:
    """Return 0 if ready to train, 1 if a check failed, 3 if results are unknown or, with `strict`, it warns."""
    worst = decide_verdict(findings)
    if worst is Status.FAIL:
        return CHECK_FAILED
    untold = worst in (Status.NOT_APPLICABLE, Status.UNKNOWN) or any(
        effective_status(f) is Status.UNKNOWN for f in findings
    )
    return UNDETERMINED if untold or (strict and worst is Status.WARN) else SUCCESS


def effective_status(finding: Finding) -> Status:
    """Return the status that counts for the verdict: a waived finding counts as passed."""
    return Status.OK if finding.waived else finding.status


BLOCKED_NAMES_LIMIT = 3  # more blocked checks are counted, not named


def describe_blocked(names: Sequence[str], is_verbose: bool = False) -> Message:
    """Return which checks a failed one blocks: their names, or their number if there are many."""
    if len(names) > BLOCKED_NAMES_LIMIT and not is_verbose:
        return ngettext(
            "Not checked until this is fixed: {count} check",
            "Not checked until this is fixed: {count} checks",
            len(names),
        )
    return _("Not checked until this is fixed: {checks}", checks=join(", ", names))


def group_blocked(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Return the blocked checks by the check that failed first: each cause is reported once."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status is Status.BLOCKED:
            for cause in list_blockers(finding):
                found.setdefault(cause, []).append(safe(finding.name))
    return {cause: list(dict.fromkeys(names)) for cause, names in found.items()}


def list_blockers(finding: Finding) -> list[str]:
    """Return the checks that block this one, the first of them first; empty if it is not blocked."""
    if finding.status is not Status.BLOCKED:
        return []
    return list(dict.fromkeys(part.blocked_by for part in (finding, *finding.details) if part.blocked_by))


def next_step(findings: Sequence[Finding]) -> str:
    """Return the first thing to do: the first sentence of the worst finding's remedy, and its first command."""
    worst = sort_worst_first(findings)
    if not worst:
        return ""
    remedy = worst[0].remedy or manual(_("Inspect {name}.", name=safe(worst[0].name)))
    words = _SENTENCE.match(safe(translate(remedy.words)))
    said = words[0].rstrip(".: 。：") if words else translate(_("Inspect"))
    if not remedy.commands:
        return translate(_("{step}.", step=said))
    return f"{translate(_('{step}:', step=said))}\n{safe(remedy.commands[0])}"


def describe_outcome(findings: Sequence[Finding], code: int) -> dict[str, Any]:
    """Return error, exit code and next step of a command; the worst finding is the error."""
    worst = sort_worst_first(findings)
    error = f"{safe(worst[0].name)}: {safe(worst[0].seen)}" if worst else summarise_findings(findings)
    return outcome_fields(code, error, join_lines(next_step(findings)))


def format_next_step(report: DoctorReport) -> str:
    """Return the next step with its command on one line, for programs; empty if this machine needs none."""
    if report.local_host and not sort_worst_first(report.findings):
        return ""
    return join_lines("\n".join(filter(None, choose_advice(report))))


def join_lines(step: str) -> str:
    """Return a step and its command on one line."""
    return remove_extra_blanks(step.replace("\n", " "))


def choose_advice(report: DoctorReport) -> tuple[str, str]:
    """Return what to do first, as a sentence and a command (which may be empty).

    For many hosts, it is the worst finding with its hosts: a host's own before the comparison's, which is often its
    consequence.
    """
    worst = max(list_distinct_problems(report), key=lambda pair: pair[1].status, default=None)
    if report.local_host and (step := next_step(report.findings)):
        words, _unused, command = step.partition("\n")
    elif decide_verdict(report.findings) is Status.NOT_APPLICABLE:
        words, command = translate(_("Choose a check that applies to this machine:")), "envcheck doctor --list-checks"
    elif report.local_host:
        words, command = translate(report.next_command.words), report.next_command.command
    elif worst is None:
        words, command = translate(_("start the job, or check it first with --model and --method.")), ""
    else:
        words, _unused, command = next_step([replace(worst[1], waived="")]).partition("\n")
        if worst[0]:
            words = translate(_("{hosts}: {step}", hosts=safe(translate(name_hosts(worst[0]))), step=words))
    return words, command


def list_distinct_problems(report: DoctorReport) -> list[tuple[tuple[str, ...], Finding]]:
    """Return the problems with their hosts; a problem that hosts share counts once, `()` is the comparison."""
    groups = [(group.hosts, group.finding) for group in group_findings(report.hosts)]
    return [*groups, *(((), f) for f in report.shared if f.status.is_problem)]


def summarise_findings(findings: Sequence[Finding]) -> str:
    """Return the verdict as a sentence; a warning together with an unknown result is not ready to train."""
    worst = decide_verdict(findings)
    unknown = sum(effective_status(f) is Status.UNKNOWN for f in findings)
    if worst < Status.FAIL and unknown:
        return translate(
            ngettext(
                "No failures, but {count} check could not run.",
                "No failures, but {count} checks could not run.",
                unknown,
            )
        )
    return translate(VERDICTS[worst])


def add_parentheses(text: str) -> str:
    """Return the text in parentheses, to follow a sentence."""
    return translate(_(" ({text})", text=text))


def get_area_title(area: str) -> str:
    """Return the title of an area of checks; the area's name if it has none."""
    return translate(TITLES[area]) if area in TITLES else safe(area)


def format_counts(findings: Iterable[Finding]) -> str:
    """Return, for example: 45 passed, 3 warnings, 1 failed, 6 not checked, 12 not applicable, 1 waived."""
    found = list(findings)
    counts = {s: sum(f.status is s and not f.waived for f in found) for s in Status}
    words = [count_status(s, counts[s]) for s in COUNTED if counts[s]]
    waived = sum(bool(f.waived) for f in found)
    return translate(join(", ", [*words, *([count_waived(waived)] if waived else [])]))


def format_tally(report: DoctorReport) -> str:
    """Return, in parentheses, how many checks have which status; for many hosts, how many have no issues."""
    found = report.findings if report.local_host else [f for _unused, f in list_distinct_problems(report)]
    parts = [] if report.local_host else [translate(describe_healthy_hosts(report.hosts))]
    tally = translate(join("; ", filter(None, [*parts, format_counts(found)])))
    return add_parentheses(tally) if tally else ""


def list_common_values(report: DoctorReport) -> list[tuple[str, str, str]]:
    """Return the majority's values: subject, value and hosts."""
    rows = [v for v in report.votes if v.name in COMMON and v.most is not None]
    return [
        (safe(translate(v.subject)), safe(translate(v.most or "")), safe(translate(name_hosts(v.majority))))
        for v in rows
    ]


def is_healthy(host: HostReport) -> bool:
    """Return whether a host has no problem of its own and none in the comparison."""
    return decide_verdict(host.all_findings) is Status.OK


def describe_healthy_hosts(hosts: Sequence[HostReport]) -> Message:
    """Return, for example: 3 of 8 hosts have no issues."""
    well = sum(map(is_healthy, hosts))
    if len(hosts) == 1:
        return _("the host has no issues") if well else _("the host has issues")
    return ngettext(
        "{count} of {total} hosts has no issues", "{count} of {total} hosts have no issues", well, total=len(hosts)
    )


def safe(text: str) -> str:
    """Return one line without control characters, cut to a bounded length."""
    if text.isprintable():  # most are: a fleet's report has millions
        return text[: 8 * TEXT_LIMIT].strip()[:TEXT_LIMIT]
    flat = _BIDI.sub("", strip_escapes(text[: 8 * TEXT_LIMIT])).replace("\t", " ")
    return "".join(c if c.isprintable() else " " for c in flat).strip()[:TEXT_LIMIT]


def format_headline(report: DoctorReport) -> str:
    """Return the first line of the report: the host or hosts and their devices."""
    return (
        _format_machine_headline(report.local_host.facts) if report.local_host else _format_hosts_headline(report.hosts)
    )


def _format_machine_headline(facts: Facts) -> str:
    host = facts.host
    cards = [_describe_cards(v) for v in facts.vendors]
    where = _("envcheck doctor on {hostname}", hostname=host.hostname) if host and host.hostname else "envcheck doctor"
    what = join(", ", cards) or _("no accelerator found; checked as a CPU-only machine")
    if facts.wanted is None:
        return safe(translate(_("{command}: {cards}", command=where, cards=what)))
    method = facts.wanted.method if facts.wanted.method != UNKNOWN_NAME else ""
    job = f"{facts.wanted.recipe} {method}".rstrip()
    return safe(translate(_("{command}: {cards}, for {job}", command=where, cards=what, job=job)))


def _format_hosts_headline(hosts: Sequence[HostReport]) -> str:
    names, silent = [h.name for h in hosts], [h.name for h in hosts if not h.answered]
    text = ngettext(
        "envcheck doctor on {hosts}: {count} host, {answered}",
        "envcheck doctor on {hosts}: {count} hosts, {answered}",
        len(names),
        hosts=name_hosts(names),
        answered=_describe_answers(names, silent),
    )
    return safe(translate(text))


def _describe_answers(names: Sequence[str], silent: Sequence[str]) -> Message:
    if len(names) == 1:
        return _("no response") if silent else _("responded")
    if len(silent) == len(names):
        return _("none responded")
    return _("all but {silent} responded", silent=name_hosts(silent)) if silent else _("all responded")


def _describe_cards(v: VendorFacts) -> Message:
    name = fill(v.vendor.title)
    if v.devices:
        return _("{count} × {name}", count=len(v.devices), name=name)
    return _("{name} ({count} on the PCI bus)", name=name, count=len(v.pci)) if v.pci else name


# Status -> count, in display order; only warnings have a plural
COUNTED = {
    Status.OK: mark("{count} passed"),
    Status.WARN: "",
    Status.FAIL: mark("{count} failed"),
    Status.UNKNOWN: mark("{count} unknown"),
    Status.BLOCKED: mark("{count} not checked"),
    Status.NOT_APPLICABLE: mark("{count} not applicable"),
}


def count_status(status: Status, count: int) -> Message:
    """Return, for example, "2 warnings" or "1 failed"."""
    if status is Status.WARN:
        return ngettext("{count} warning", "{count} warnings", count)
    return fill(COUNTED[status], count=count)


VERDICTS = {
    Status.OK: _("Ready to train."),
    Status.NOT_APPLICABLE: _("No check applies to this machine."),
    Status.UNKNOWN: _("The checks could not run."),
    Status.WARN: _("Ready to train, with warnings."),
    Status.FAIL: _("Not ready to train."),
}


def count_waived(count: int) -> Message:
    """Return the text "{count} waived"."""
    return _("{count} waived", count=count)


def sort_worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """Return the problems that are not waived: worst status, then root causes, then those with a remedy."""
    wrong = [f for f in findings if effective_status(f).is_problem]
    return sorted(wrong, key=lambda f: (-f.status, f.name not in ROOTS, f.remedy is None))

"""SARIF 2.1.0 for code scanners and editors: one rule per check, one result per check and vendor (or machine).

A machine has no source file: results have logical locations, the machine and the vendor's devices.  `kind` separates
results (SARIF 2.1.0, 3.27.9): open lacks information that another check must provide first, review requires a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from envcheck.core.check import Check
from envcheck.core.language import current_language, translate
from envcheck.core.model import Finding, Status
from envcheck.report.contents import DoctorReport
from envcheck.report.sarif_log import write_log
from envcheck.report.summary import (
    AMONG_HOSTS,
    exit_code,
    format_headline,
    format_next_step,
    get_area_title,
    safe,
    summarise_findings,
)

# Status -> kind and level; a level other than none goes with kind fail alone (3.27.10).
KINDS = {
    Status.OK: ("pass", "none"),
    Status.NOT_APPLICABLE: ("notApplicable", "none"),
    Status.BLOCKED: ("open", "none"),
    Status.UNKNOWN: ("review", "none"),
    Status.WARN: ("fail", "warning"),
    Status.FAIL: ("fail", "error"),
}


def render(report: DoctorReport) -> str:
    """Return the report as a SARIF log."""
    results = [_describe_result(f, place) for place, found in _group_by_location(report) for f in found]
    name = "envcheck doctor/" if report.local_host else "envcheck doctor --hosts/"
    return write_log(
        results,
        _describe_rule,
        automationDetails={"id": name, "description": {"text": format_headline(report)}},
        invocations=[_describe_invocation(report)],
        properties={"verdict": summarise_findings(report.findings), "nextStep": format_next_step(report)},
    )


def _group_by_location(report: DoctorReport) -> Iterator[tuple[str, Sequence[Finding]]]:
    """Where results are, with them: among the hosts, on each host, or on this machine by its own name."""
    if report.shared:
        yield AMONG_HOSTS, report.shared
    for host in report.hosts:
        own = (host.facts.host.hostname if host.facts.host else None) or "machine"
        yield safe(host.name or own) or "host", host.findings


def _describe_rule(name: str) -> dict[str, Any]:
    """A site's own check is known by its name alone."""
    check = _index_checks().get(name)
    area = name.partition(".")[0]
    rule: dict[str, Any] = {"id": name, "properties": {"tags": [get_area_title(area)]}}
    if check:
        rule["shortDescription"] = {"text": safe(translate(" ".join(check.description.split())))}
        if current_language() == "en":  # what the tables of checks say beyond that has no other language
            parts = (f"Reads: {check.reads}", check.rule, check.fix, f"Source: {check.source}")
            rule["help"] = {"text": " ".join(f"{safe(part).rstrip('.')}." for part in parts if part)}
    return rule


@cache
def _index_checks() -> dict[str, Check]:
    from envcheck.checks import CHECKS

    return {check.name: check for check in CHECKS}


def _describe_invocation(report: DoctorReport) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": True, "exitCode": exit_code(report.findings, report.strict)}
    if report.made:
        invocation["endTimeUtc"] = report.made.strftime("%Y-%m-%dT%H:%M:%SZ")
    return invocation


def _describe_result(finding: Finding, machine: str) -> dict[str, Any]:
    kind, level = KINDS[finding.status]
    place = f"{machine}/{safe(finding.device)}" if finding.device else machine
    result: dict[str, Any] = {
        "ruleId": safe(finding.name),
        "kind": kind,
        "level": level,
        "message": {"text": _format_message(finding)},
        "locations": [{"logicalLocations": [{"fullyQualifiedName": place, "kind": "resource"}]}],
        "properties": {"status": finding.status.name, "evidence": _list_evidence(finding)},
    }
    if finding.waived:
        waiver = {"kind": "external", "status": "accepted", "justification": safe(finding.waived)}
        result["suppressions"] = [waiver]
    return result


def _list_evidence(finding: Finding) -> list[str]:
    return [safe(line) for part in (finding, *finding.details) for line in part.evidence]


def _format_message(finding: Finding) -> str:
    """What was seen, and what to do."""
    words = []
    for part in (finding, *finding.details):
        words.append(safe(part.seen) or safe(part.name))
        if part.remedy and part.status.is_problem:
            words += [
                safe(f"{translate(part.remedy.label)}{part.remedy.words}"),
                *(f"  {safe(command)}" for command in part.remedy.commands),
            ]
    return "\n".join(words)

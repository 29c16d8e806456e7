"""For code scanners and editors: SARIF 2.1.0, a rule a check, a result a check of one vendor's devices or machine.

A machine has no source file: results stand at logical locations, the machine and its vendor's devices.  `kind` keeps
the answers apart (SARIF 2.1.0, 3.27.9): open lacks information that another check has to give first, review is for a
person to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from envcheck.core.check import Check
from envcheck.core.language import chosen, say
from envcheck.core.model import Finding, Status
from envcheck.report.contents import Report
from envcheck.report.sarif_log import write_log
from envcheck.report.summary import AMONG_HOSTS, exit_code, head, next_line, safe, summary, title

# Status -> kind and level; a level other than none goes with kind fail alone (3.27.10).
KINDS = {
    Status.OK: ("pass", "none"),
    Status.NOT_APPLICABLE: ("notApplicable", "none"),
    Status.BLOCKED: ("open", "none"),
    Status.UNKNOWN: ("review", "none"),
    Status.WARN: ("fail", "warning"),
    Status.FAIL: ("fail", "error"),
}


def render(report: Report) -> str:
    results = [_result(f, place) for place, found in _places(report) for f in found]
    name = "envcheck doctor/" if report.local else "envcheck doctor --hosts/"
    return write_log(
        results,
        _rule,
        automationDetails={"id": name, "description": {"text": head(report)}},
        invocations=[_invocation(report)],
        properties={"verdict": summary(report.findings), "nextStep": next_line(report)},
    )


def _places(report: Report) -> Iterator[tuple[str, Sequence[Finding]]]:
    """Where results are, with them: among the hosts, on each host, or on this machine by its own name."""
    if report.shared:
        yield AMONG_HOSTS, report.shared
    for host in report.hosts:
        own = (host.facts.host.hostname if host.facts.host else None) or "machine"
        yield safe(host.name or own) or "host", host.findings


def _rule(name: str) -> dict[str, Any]:
    """A site's own check is known by its name alone."""
    check = _checks().get(name)
    area = name.partition(".")[0]
    rule: dict[str, Any] = {"id": name, "properties": {"tags": [title(area)]}}
    if check:
        rule["shortDescription"] = {"text": safe(say(" ".join(check.says.split())))}
        if chosen() == "en":  # what the tables of checks say beyond that has no other language
            parts = (f"Reads: {check.reads}", check.rule, check.fix, f"Source: {check.source}")
            rule["help"] = {"text": " ".join(f"{safe(part).rstrip('.')}." for part in parts if part)}
    return rule


@cache
def _checks() -> dict[str, Check]:
    from envcheck.checks import CHECKS

    return {check.name: check for check in CHECKS}


def _invocation(report: Report) -> dict[str, Any]:
    told: dict[str, Any] = {"executionSuccessful": True, "exitCode": exit_code(report.findings, report.strict)}
    if report.made:
        told["endTimeUtc"] = report.made.strftime("%Y-%m-%dT%H:%M:%SZ")
    return told


def _result(finding: Finding, machine: str) -> dict[str, Any]:
    kind, level = KINDS[finding.status]
    place = f"{machine}/{safe(finding.device)}" if finding.device else machine
    result: dict[str, Any] = {
        "ruleId": safe(finding.name),
        "kind": kind,
        "level": level,
        "message": {"text": _message(finding)},
        "locations": [{"logicalLocations": [{"fullyQualifiedName": place, "kind": "resource"}]}],
        "properties": {"status": finding.status.name, "evidence": _evidence(finding)},
    }
    if finding.waived:
        waiver = {"kind": "external", "status": "accepted", "justification": safe(finding.waived)}
        result["suppressions"] = [waiver]
    return result


def _evidence(finding: Finding) -> list[str]:
    return [safe(line) for part in (finding, *finding.details) for line in part.evidence]


def _message(finding: Finding) -> str:
    """What was seen, and what to do."""
    words = []
    for part in (finding, *finding.details):
        words.append(safe(part.seen) or safe(part.name))
        if part.remedy and part.status.is_problem:
            words += [safe(part.remedy.words), *(f"  {safe(command)}" for command in part.remedy.commands)]
    return "\n".join(words)

"""For code scanners and editors: SARIF 2.1.0, a rule a check, a result a check of one vendor's devices or machine.

A machine has no source file: results stand at logical locations, the machine and its vendor's devices.  `kind` keeps
the answers apart (SARIF 2.1.0, 3.27.9): open lacks information that another check has to give first, review is for a
person to decide.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envcheck.core.check import Check
from envcheck.core.language import chosen, say
from envcheck.core.model import Finding, Status
from envcheck.core.version import __version__
from envcheck.report.summary import Report, exit_code, head, next_line, safe, summary, title

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
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
    from envcheck.checks import CHECKS

    names = list(dict.fromkeys(safe(f.name) for f in report.findings))
    known = {check.name: check for check in CHECKS}
    driver = {"name": "envcheck", "version": __version__, "rules": [_rule(name, known.get(name)) for name in names]}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "envcheck doctor/", "description": {"text": head(report.facts)}},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, names, _machine(report)) for f in report.findings],
        "properties": {"verdict": summary(report.findings), "nextStep": next_line(report.findings)},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=True) + "\n"


def _rule(name: str, check: Check | None) -> dict[str, Any]:
    """A site's own check is known by its name alone."""
    area = name.partition(".")[0]
    rule: dict[str, Any] = {"id": name, "properties": {"tags": [title(area)]}}
    if check:
        rule["shortDescription"] = {"text": safe(say(" ".join(check.says.split())))}
        if chosen() == "en":  # what the tables of checks say beyond that has no other language
            parts = (f"Reads: {check.reads}", check.rule, check.fix, f"Source: {check.source}")
            rule["help"] = {"text": " ".join(f"{safe(part).rstrip('.')}." for part in parts if part)}
    return rule


def _machine(report: Report) -> str:
    return safe((report.facts.host.hostname if report.facts.host else None) or "") or "machine"


def _invocation(report: Report) -> dict[str, Any]:
    told: dict[str, Any] = {"executionSuccessful": True, "exitCode": exit_code(report.findings, report.strict)}
    if report.made:
        told["endTimeUtc"] = report.made.strftime("%Y-%m-%dT%H:%M:%SZ")
    return told


def _result(finding: Finding, names: Sequence[str], machine: str) -> dict[str, Any]:
    kind, level = KINDS[finding.status]
    place = f"{machine}/{safe(finding.device)}" if finding.device else machine
    result: dict[str, Any] = {
        "ruleId": safe(finding.name),
        "ruleIndex": names.index(safe(finding.name)),
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

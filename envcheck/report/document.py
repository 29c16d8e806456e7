"""For programs: one JSON document, in plain ASCII."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Severity
from envcheck.report.summary import Report, exit_code, explains, next_line, safe, verdict

SCHEMA = 1


def render(report: Report) -> str:
    return as_json(report.findings, report.facts, report.strict) + "\n"


def as_json(findings: Sequence[Finding], facts: Facts, strict: bool = False) -> str:
    explained = explains(findings)
    document = {
        "schema": SCHEMA,
        "verdict": verdict(findings).name,
        "exit_code": exit_code(findings, strict),
        "device": [v.name for v in facts.vendors] or ["cpu"],
        "job": {"recipe": facts.wanted.recipe, "method": facts.wanted.method} if facts.wanted else None,
        "findings": [finding_object(f, explained.get(f.name, [])) for f in findings],
        "next_step": next_line(findings),
    }
    return json.dumps(document, indent=1, ensure_ascii=True)


def finding_object(finding: Finding, unjudged: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "name": safe(finding.name),
        "severity": finding.severity.name,
        "device": safe(finding.device),
        "seen": safe(finding.seen),
        "remedy": {"words": safe(finding.remedy.words), "commands": [safe(c) for c in finding.remedy.commands]}
        if finding.remedy
        else None,
        "evidence": [safe(line) for line in finding.evidence],
        "source": safe(finding.source),
        "follows": finding.follows,
        "explains": list(unjudged) if finding.severity > Severity.SKIP else [],
        "waived": safe(finding.waived),
    }

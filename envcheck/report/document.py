"""For programs: one JSON document, in plain ASCII."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from envcheck.core.facts import Facts
from envcheck.core.model import Finding
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.summary import Report, blocking, exit_code, group_blocked, next_line, safe, verdict


def render(report: Report) -> str:
    return as_json(report.findings, report.facts, report.strict, report.job) + "\n"


def as_json(
    findings: Sequence[Finding], facts: Facts, strict: bool = False, job: Mapping[str, Any] | None = None
) -> str:
    """`job` is the document of the named job."""
    blocked = group_blocked(findings)
    document = {
        "schema": SCHEMA_VERSION,
        "verdict": verdict(findings).name,
        "exit_code": exit_code(findings, strict),
        "device": [v.name for v in facts.vendors] or ["cpu"],
        "job": job,
        "findings": [finding_object(f, blocked.get(f.name, ())) for f in findings],
        "next_step": next_line(findings),
    }
    return json.dumps(document, indent=1, ensure_ascii=True)


def finding_object(finding: Finding, blocks: Sequence[str] = ()) -> dict[str, Any]:
    """A check and its one status; `details` is what else it saw, `blocks` the checks that it blocks."""
    return {
        "name": safe(finding.name),
        "status": finding.status.name,
        "device": safe(finding.device),
        **_seen(finding),
        "source": safe(finding.source),
        "blocked_by": [safe(cause) for cause in blocking(finding)],
        "blocks": list(blocks) if finding.status.is_problem else [],
        "waived": safe(finding.waived),
        "details": [_seen(part) for part in finding.details],
    }


def _seen(part: Finding) -> dict[str, Any]:
    return {
        "seen": safe(part.seen),
        "remedy": {"words": safe(part.remedy.words), "commands": [safe(c) for c in part.remedy.commands]}
        if part.remedy
        else None,
        "evidence": [safe(line) for line in part.evidence],
    }

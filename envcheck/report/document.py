"""For programs: one JSON document, in plain ASCII; `envcheck schema doctor` and `envcheck schema fleet` describe it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envcheck.core.host_names import fold_hosts
from envcheck.core.model import Finding, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.contents import HostReport, Report, Vote
from envcheck.report.summary import blocking, exit_code, findings_outcome, group_blocked, next_line, safe, verdict


def render(report: Report) -> str:
    document = {
        "schema": SCHEMA_VERSION,
        "verdict": verdict(report.findings).name,
        **findings_outcome(report.findings, exit_code(report.findings, report.strict)),
        "next": next_line(report),
        **(_machine(report, report.local) if report.local else _hosts(report)),
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _machine(report: Report, host: HostReport) -> dict[str, Any]:
    return {
        "device": [v.name for v in host.facts.vendors] or ["cpu"],
        "job": report.job,
        "findings": _findings(host.findings),
    }


def _hosts(report: Report) -> dict[str, Any]:
    return {
        "hosts": {
            safe(host.name): {
                "answered": host.answered,
                "verdict": verdict(host.findings).name,
                "named": [safe(f.name) for f in host.outlier],
                "findings": _findings(host.findings),
            }
            for host in report.hosts
        },
        "common": [_vote(v) for v in report.votes if v.agreed],
        "odd": [_vote(v) for v in report.votes if not v.agreed],
        "findings": _findings(report.shared),
    }


def _vote(vote: Vote) -> dict[str, Any]:
    return {
        "name": vote.name,
        "subject": safe(vote.subject),
        "status": (Status.OK if vote.agreed else vote.status).name,
        "most": None if vote.most is None else safe(vote.most),
        "values": [{"value": safe(value), "hosts": fold_hosts(hosts)} for value, hosts in vote.values.items()],
    }


def _findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    blocked = group_blocked(findings)
    return [_finding(f, blocked.get(f.name, ())) for f in findings]


def _finding(finding: Finding, blocks: Sequence[str]) -> dict[str, Any]:
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

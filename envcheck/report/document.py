"""The JSON report, in plain ASCII; `envcheck schema doctor` and `envcheck schema fleet` describe it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from envcheck.core import messages
from envcheck.core.host_names import fold_hosts
from envcheck.core.model import Finding, Remedy, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.contents import DoctorReport, HostReport, Vote
from envcheck.report.summary import (
    decide_verdict,
    describe_outcome,
    exit_code,
    format_next_step,
    group_blocked,
    list_blockers,
    safe,
)


def render(report: DoctorReport) -> str:
    """Return the report as one JSON document."""
    document = {
        "schema": SCHEMA_VERSION,
        "verdict": decide_verdict(report.findings).name,
        **describe_outcome(report.findings, exit_code(report.findings, report.strict)),
        "next": format_next_step(report),
        **(_describe_machine(report, report.local_host) if report.local_host else _describe_hosts(report)),
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _describe_machine(report: DoctorReport, host: HostReport) -> dict[str, Any]:
    return {
        "device": [v.name for v in host.facts.vendors] or ["cpu"],
        "job": report.job,
        "findings": _describe_findings(host.findings),
    }


def _describe_hosts(report: DoctorReport) -> dict[str, Any]:
    return {
        "hosts": {safe(host.name): _describe_host(host) for host in report.hosts},
        "common": [_describe_vote(v) for v in report.votes if v.is_unanimous],
        "outliers": [_describe_vote(v) for v in report.votes if not v.is_unanimous],
        "findings": _describe_findings(report.shared),
    }


def _describe_host(host: HostReport) -> dict[str, Any]:
    return {
        **_describe_answer(host),
        "outlier_findings": [safe(f.name) for f in host.outlier],
        "findings": _describe_findings(host.findings),
    }


def _describe_answer(host: HostReport) -> dict[str, Any]:
    return {"answered": host.answered, "verdict": decide_verdict(host.findings).name}


def render_host_line(host: HostReport) -> str:
    """Return one host as a JSON document in one line."""
    head = {"schema": SCHEMA_VERSION, "host": safe(host.name), **_describe_answer(host)}
    texts = {key: json.dumps(value, ensure_ascii=True) for key, value in head.items()}
    blocked = group_blocked(host.findings)
    texts["findings"] = f"[{', '.join(_render_finding(f, tuple(blocked.get(f.name, ()))) for f in host.findings)}]"
    return f"{{{', '.join(f'{json.dumps(key)}: {text}' for key, text in texts.items())}}}\n"


@lru_cache(maxsize=2048)
def _render_finding(finding: Finding, blocks: tuple[str, ...]) -> str:
    """Return the JSON of a finding: most findings of a fleet are those of many hosts."""
    return json.dumps(_describe_finding(finding, blocks), ensure_ascii=True)


def _describe_vote(vote: Vote) -> dict[str, Any]:
    return {
        "name": vote.name,
        "subject": safe(vote.subject),
        "status": (Status.OK if vote.is_unanimous else vote.status).name,
        "majority": None if vote.most is None else safe(vote.most),
        "values": [{"value": safe(value), "hosts": fold_hosts(hosts)} for value, hosts in vote.values.items()],
    }


def _describe_findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    blocked = group_blocked(findings)
    return [_describe_finding(f, blocked.get(f.name, ())) for f in findings]


def _describe_finding(finding: Finding, blocks: Sequence[str]) -> dict[str, Any]:
    """A check and its one status; `details` are its other findings, `blocks` the checks that it blocks."""
    return {
        "name": safe(finding.name),
        "status": finding.status.name,
        "device": safe(finding.device),
        **_describe_observation(finding),
        "source": safe(finding.source),
        "blocked_by": [safe(cause) for cause in list_blockers(finding)],
        "blocks": list(blocks) if finding.status.is_problem else [],
        "waived": safe(finding.waived),
        "details": [_describe_observation(part) for part in finding.details],
    }


def _describe_observation(part: Finding) -> dict[str, Any]:
    return {
        "seen": safe(part.seen),
        "message": _describe_message(part.seen),
        "remedy": _describe_remedy(part.remedy) if part.remedy else None,
        "evidence": [safe(line) for line in part.evidence],
    }


def _describe_message(seen: str) -> dict[str, Any]:
    """The headline's English template and values."""
    return {name: _clean_strings(value) for name, value in messages.describe(seen).items()}


def _clean_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _clean_strings(below) for name, below in value.items()}
    return _keep_blanks(value) if isinstance(value, str) else value


def _keep_blanks(value: str) -> str:
    """As `safe`, but keep leading and trailing blanks: a separator has some."""
    bare = value.strip()
    return value if bare and safe(bare) == bare and value.isprintable() else safe(value)


def _describe_remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "kind": remedy.kind.value,
        "words": safe(remedy.words),
        "commands": [safe(command) for command in remedy.commands],
    }

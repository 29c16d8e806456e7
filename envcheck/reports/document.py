"""For programs: one JSON document, in plain ASCII."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envcheck.model import Facts, Finding
from envcheck.reports.judged import exit_code, next_step, safe, verdict

SCHEMA = 1


def as_json(findings: Sequence[Finding], facts: Facts, strict: bool = False) -> str:
    document = {
        "schema": SCHEMA,
        "verdict": verdict(findings).name,
        "exit_code": exit_code(findings, strict),
        "device": [v.name for v in facts.vendors] or ["cpu"],
        "job": {"recipe": facts.wanted.recipe, "method": facts.wanted.method} if facts.wanted else None,
        "findings": [_object(f) for f in findings],
        "next_step": next_step(findings).replace("\n", " "),
    }
    return json.dumps(document, indent=1, ensure_ascii=True)


def _object(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name,
        "severity": finding.severity.name,
        "device": finding.device,
        "seen": safe(finding.seen),
        "remedy": {"words": safe(finding.remedy.words), "commands": [safe(c) for c in finding.remedy.commands]}
        if finding.remedy
        else None,
        "evidence": [safe(line) for line in finding.evidence],
        "source": finding.source,
    }

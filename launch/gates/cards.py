"""The devices of the job: enough of them."""

from __future__ import annotations

from envcheck.model import Finding, Severity
from envcheck.vendors import VENDORS
from launch.gates.answers import answer
from launch.situation import Situation


def devices(s: Situation) -> Finding:
    """As many devices, or processors, as the job starts processes."""
    needs = max(s.job.cards or 0, s.job.processes)
    if s.device == "cpu":
        cores = s.facts.host.cpu_count if s.facts.host else None
        seen = f"{needs} processes on {'an unknown number of' if cores is None else cores} processors"
        good = None if cores is None else cores >= needs
        return answer("gate.devices", good, seen, "It will run, slowly.", bad=Severity.WARN)
    has = sum(len(v.devices) for v in s.facts.vendors if v.name == s.device)
    title = VENDORS[s.device].title
    return answer(
        "gate.devices",
        has >= needs,
        f"{has} {title} devices, the job wants {needs}",
        f"Run it on a machine with {needs} of them; see its command with --dry-run.",
        f"envcheck doctor --device {s.device}",
    )

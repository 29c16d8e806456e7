"""Memory of cards and host against what the job needs."""

from __future__ import annotations

from envcheck.model import Finding, Severity
from envcheck.units import GIB, gib
from installers.recipes.recipe import wanted
from launch.gates.answers import answer
from launch.situation import Situation


def memory(s: Situation) -> Finding:
    """The cards hold the job, by the planner; and as much host memory is free as the recipe wants."""
    host, cards = host_memory(s), device_memory(s)
    if cards is None or host.severity is Severity.SKIP:
        return cards or host
    return max(cards, host, key=lambda finding: finding.severity)


def device_memory(s: Situation) -> Finding | None:
    fit = s.facts.wanted.fit if s.facts.wanted else None
    if fit is None:
        return None
    severity = {True: Severity.OK, False: Severity.FAIL, None: Severity.UNKNOWN}[fit.fits]
    return Finding("gate.memory", severity, fit.reason, fit.remedy)


def host_memory(s: Situation) -> Finding:
    """As much free memory as the recipe wants."""
    wants = wanted(s.recipe, s.job).host_memory_gib
    has = s.facts.host.memory_available_bytes if s.facts.host else None
    if wants is None:
        return Finding("gate.memory", Severity.SKIP, "the recipe does not say how much host memory it needs")
    seen = f"{'unknown' if has is None else gib(has)} of host memory free, the job wants {wants:g} GiB"
    return answer("gate.memory", None if has is None else has >= wants * GIB, seen, "End what else uses it.", "free -h")

"""Check a job's requirements on a machine, for doctor, plan, provision and the preflight checks of train.

The rules are the checks `job.*`; the requirements are `facts.wanted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from envcheck.checks import CHECKS, results, run_check
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status

AREA = "job"
RULES = tuple(check for check in CHECKS if check.area == AREA)
BY_NAME = {check.name: check for check in CHECKS}


def judge_requirements(facts: Facts) -> tuple[Finding, ...]:
    """Return one finding per requirement of the job in `facts.wanted`; empty without a job.

    A failed requirement is reported as a failure of its own even if a check outside the job explains it.  For a
    requirement that cannot be judged, the check that explains it runs as well, so that the finding can name it.
    """
    parts = [_drop_foreign_cause(part) for rule in RULES for part in run_check(rule, facts)]
    causes = _run_causes(parts, facts)
    resolved = results.resolve_causes([*parts, *causes], BY_NAME.keys())
    return tuple(f for f in results.merge_parts(resolved) if f.name.startswith(f"{AREA}."))


def list_unmet(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the names of the failed requirements: cards, memory, architecture ..."""
    return tuple(f.name.removeprefix(f"{AREA}.") for f in findings if f.status is Status.FAIL)


def _drop_foreign_cause(part: Finding) -> Finding:
    """Drop a cause outside the job from a finding that failed by itself."""
    if part.status.is_problem and not part.blocked_by.startswith(f"{AREA}."):
        return replace(part, blocked_by="")
    return part


def _run_causes(parts: Sequence[Finding], facts: Facts) -> list[Finding]:
    """Run the checks named as causes, and the causes of these; return their findings."""
    found: list[Finding] = []
    ran = {rule.name for rule in RULES}
    while missing := _name_causes((*parts, *found)) - ran:
        ran |= missing
        found += [part for name in sorted(missing) for part in run_check(BY_NAME[name], facts)]
    return found


def _name_causes(parts: Iterable[Finding]) -> set[str]:
    return {part.blocked_by for part in parts if part.blocked_by in BY_NAME}

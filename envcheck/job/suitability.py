"""Whether a machine meets the requirements of a job: the one judge, for doctor, plan, provision and the gates of train.

The rules are the checks `job.*`; what the job requires is `facts.wanted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from envcheck.checks import CHECKS, results, run
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status

AREA = "job"
RULES = tuple(check for check in CHECKS if check.area == AREA)
BY_NAME = {check.name: check for check in CHECKS}


def judge_requirements(facts: Facts) -> tuple[Finding, ...]:
    """One finding for each requirement of the named job; none where no job is named.

    What fails here fails by itself, although a check outside of the job may explain it.  Where nothing can be judged
    the check that explains it is run as well, so that the finding names it.
    """
    parts = [_free_of_others(part) for rule in RULES for part in run(rule, facts)]
    causes = _run_causes(parts, facts)
    resolved = results.resolve_causes([*parts, *causes], BY_NAME.keys())
    return tuple(f for f in results.merge_parts(resolved) if f.name.startswith(f"{AREA}."))


def list_unmet(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The names of the requirements that are not met: cards, memory, architecture ..."""
    return tuple(f.name.removeprefix(f"{AREA}.") for f in findings if f.status is Status.FAIL)


def _free_of_others(part: Finding) -> Finding:
    """Without the cause, where that is no requirement of the job and the part was judged all the same."""
    if part.status.is_problem and not part.blocked_by.startswith(f"{AREA}."):
        return replace(part, blocked_by="")
    return part


def _run_causes(parts: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings of the checks that are named as causes, and of the causes of these."""
    found: list[Finding] = []
    ran = {rule.name for rule in RULES}
    while missing := _name_causes((*parts, *found)) - ran:
        ran |= missing
        found += [part for name in sorted(missing) for part in run(BY_NAME[name], facts)]
    return found


def _name_causes(parts: Iterable[Finding]) -> set[str]:
    return {part.blocked_by for part in parts if part.blocked_by in BY_NAME}

"""Findings of many nodes, for people and programs: each sentence once, with the nodes that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envcheck.core.errors import UNFIT
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say as spoken
from envcheck.core.language.findings import localised
from envcheck.core.model import Finding, Status
from envcheck.report.summary import findings_outcome
from installers.hosts.hosts_text import column
from launch.backends.node_requirements import PlacementVerdict
from launch.run.run_text import say, spoken_aside

Findings = Mapping[str, Iterable[Finding]]


def print_findings(found: Findings, least: Status) -> None:
    """Those of at least this status, by node, on standard error; the worst first, with what they show."""
    groups: dict[tuple[int, str, str, tuple[str, ...]], tuple[Finding, list[str]]] = {}
    for node, findings in found.items():
        for f in findings:
            if f.status >= least:
                groups.setdefault((-f.status, f.name, f.seen, f.evidence), (f, []))[1].append(node)
    for _, (f, nodes) in sorted(groups.items(), key=lambda pair: pair[0]):
        (one,) = localised([f])
        say(f"{column(f.status.name.lower(), 8)}{fold_hosts(nodes)}: {f.name}: {one.seen}")
        if f.status is Status.FAIL:
            for line in one.evidence:
                say(f"        {spoken(line)}")
        if f.status.is_problem and one.remedy:
            say(f"        {spoken('next: ')}{one.remedy.words}")
            for line in one.remedy.commands:
                say(f"          $ {line}")


def print_placement(verdicts: Iterable[PlacementVerdict]) -> None:
    """Which nodes cannot take the job, and why; of those that can, what nobody could judge yet."""
    for verdict in verdicts:
        if verdict.is_refused:
            spoken_aside(_headline(verdict))
            print_findings(verdict.findings, Status.FAIL)
            continue
        unchecked: dict[tuple[str, ...], list[str]] = {}
        for node, names in verdict.unchecked.items():
            unchecked.setdefault(names, []).append(node)
        for names, nodes_of in unchecked.items():
            spoken_aside(f"note: not checked before submission on {fold_hosts(nodes_of)}: {', '.join(names)}")


def _headline(verdict: PlacementVerdict) -> str:
    title, needed = verdict.title, verdict.needed
    found = ", ".join(
        f"{each.pool.name} {len(each.pool.nodes) - len(each.unmet)}/{len(each.pool.nodes)}" for each in verdict.pools
    )
    if needed == 1:
        return f"blocked: {title} needs 1 node that meets its requirements; found: {found}"
    return f"blocked: {title} needs {needed} nodes that meet its requirements; found: {found}"


def blocked_by(verdicts: Iterable[PlacementVerdict]) -> tuple[str, ...]:
    """The names of the requirements that are not met, each once."""
    return tuple(dict.fromkeys(name for verdict in verdicts for name in verdict.blocked_by))


def refusal_values(verdicts: Sequence[PlacementVerdict]) -> dict[str, Any]:
    """For the document of a job that is not submitted."""
    nodes = {node: found for verdict in verdicts for node, found in verdict.findings.items()}
    every = [finding for found in nodes.values() for finding in found]
    return {
        **findings_outcome(every, UNFIT),
        "blocked_by": list(blocked_by(verdicts)),
        "nodes": findings_values(nodes),
    }


def findings_values(found: Findings) -> dict[str, list[dict[str, Any]]]:
    """By node, as the schemas have them."""
    return {
        node: [
            {
                "name": f.name,
                "status": f.status.name,
                "seen": f.seen,
                "evidence": list(f.evidence),
                "next": f.remedy.words if f.remedy else "",
            }
            for f in findings
        ]
        for node, findings in found.items()
    }

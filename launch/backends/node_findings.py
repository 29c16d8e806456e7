"""Findings of many nodes for people and programs: each finding once, with its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envcheck.core.errors import CHECK_FAILED
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import translate
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.messages import Message, _, join, mark, verbatim
from envcheck.core.model import Finding, Status
from envcheck.report.summary import describe_outcome
from installers.hosts.presentation import pad_state
from launch.backends.node_requirements import PlacementVerdict
from launch.run.run_text import print_line, print_translated

Findings = Mapping[str, Iterable[Finding]]


STATUS_LABELS = {
    Status.FAIL: mark("failed"),
    Status.WARN: mark("warning"),
    Status.UNKNOWN: mark("unknown"),
    Status.OK: mark("passed"),
    Status.NOT_APPLICABLE: mark("skipped"),
}
LABEL_WIDTH = 9


def print_findings(found: Findings, least: Status) -> None:
    """Print findings of at least this status on standard error, worst first, each once with its nodes."""
    groups: dict[tuple[int, str, str, tuple[str, ...]], tuple[Finding, list[str]]] = {}
    for node, findings in found.items():
        for f in findings:
            if f.status >= least:
                groups.setdefault((-f.status, f.name, f.seen, f.evidence), (f, []))[1].append(node)
    for _unused, (f, nodes) in sorted(groups.items(), key=lambda pair: pair[0]):
        (shown,) = localize_findings([f])
        label = pad_state(STATUS_LABELS[f.status], LABEL_WIDTH)
        line = _("{nodes}: {check}: {seen}", nodes=fold_hosts(nodes), check=f.name, seen=verbatim(shown.seen))
        print_line(f"{label}{translate(line)}")
        if f.status is Status.FAIL:
            for evidence in shown.evidence:
                print_line(f"{'':{LABEL_WIDTH}}{translate(evidence)}")
        if f.status.is_problem and shown.remedy:
            print_line(f"{'':{LABEL_WIDTH}}{translate(shown.remedy.label)}{shown.remedy.words}")
            for command in shown.remedy.commands:
                print_line(f"{'':{LABEL_WIDTH}}  $ {command}")


def print_placement(verdicts: Iterable[PlacementVerdict]) -> None:
    """Print which nodes do not meet the requirements and why, and which requirements could not be checked."""
    for verdict in verdicts:
        if verdict.is_refused:
            print_translated(_describe_shortage(verdict))
            print_findings(verdict.findings, Status.FAIL)
            continue
        unchecked: dict[tuple[str, ...], list[str]] = {}
        for node, names in verdict.unchecked.items():
            unchecked.setdefault(names, []).append(node)
        for names, nodes_of in unchecked.items():
            print_translated(
                _(
                    "note: not checked before submission on {nodes}: {names}",
                    nodes=fold_hosts(nodes_of),
                    names=join(", ", names),
                )
            )


def _describe_shortage(verdict: PlacementVerdict) -> Message:
    title, needed = verdict.title, verdict.needed
    found = join(
        ", ",
        (f"{each.pool.name} {len(each.pool.nodes) - len(each.unmet)}/{len(each.pool.nodes)}" for each in verdict.pools),
    )
    if needed == 1:
        return _("blocked: {title} needs 1 node that meets its requirements; found: {found}", title=title, found=found)
    return _(
        "blocked: {title} needs {needed} nodes that meet its requirements; found: {found}",
        title=title,
        needed=needed,
        found=found,
    )


def blocked_by(verdicts: Iterable[PlacementVerdict]) -> tuple[str, ...]:
    """Return the names of all unmet requirements, each once."""
    return tuple(dict.fromkeys(name for verdict in verdicts for name in verdict.blocked_by))


def refusal_values(verdicts: Sequence[PlacementVerdict]) -> dict[str, Any]:
    """Return the part of the JSON document that says why a job is not submitted."""
    nodes = {node: found for verdict in verdicts for node, found in verdict.findings.items()}
    findings = [finding for found in nodes.values() for finding in found]
    return {
        **describe_outcome(findings, CHECK_FAILED),
        "blocked_by": list(blocked_by(verdicts)),
        "nodes": findings_values(nodes),
    }


def findings_values(found: Findings) -> dict[str, list[dict[str, Any]]]:
    """Return the findings by node as JSON values."""
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

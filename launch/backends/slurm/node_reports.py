"""Preflight results of the nodes of a job: one document of `train --gates --json` per node, judged together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.core.messages import _, describe, fill, ngettext, restore
from launch.backends.slurm.node_faults import is_node_fault
from launch.run.states import upgrade_record

LIMIT = 64 << 20  # bytes of a document; a node with 16 devices has 200 kB
# Gates that fail because of the machine: a job of one node looks for another one.
MACHINE_GATES = ("gate.doctor", "gate.devices", "gate.topology")
# What envcheck on a node refused, and gates that depend on the options of the job only, on no node.
OPTION_GATES = ("train", "gate.command", "gate.degrees", "gate.mix", "gate.steps")
NO_ANSWER = "look.answer"
MOST_LINES = 8  # of evidence


@dataclass(frozen=True)
class FailedGate:
    """A failed preflight check of a node: its name, the finding, and what to do.

    `checks` are the checks of doctor that failed in it, with a line of `evidence` each.
    """

    name: str
    seen: str
    next_step: str = ""
    evidence: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The cause in one line, without the remedy: the first check that failed in this gate, else its finding."""
        check = next(iter(self.evidence), "").partition(". ")[0].rstrip(".")
        return check or self.seen


@dataclass(frozen=True)
class NodesVerdict:
    """`closed`: nodes with failed preflight checks; `bad_nodes`: those that the job should run without."""

    nodes: tuple[str, ...]
    closed: Mapping[str, tuple[FailedGate, ...]]

    @property
    def bad_nodes(self) -> tuple[str, ...]:
        """Nodes with a failure that the others do not have. A gate that fails on all of several nodes is a fault of the
        job, which other nodes would have too."""
        own = {node: {gate.name for gate in gates} - {*OPTION_GATES} for node, gates in self.closed.items()}
        common = set.intersection(*own.values()) if len(own) == len(self.nodes) > 1 else set()
        alone = len(self.nodes) == 1
        return tuple(
            node for node, gates in own.items() if (gates & {*MACHINE_GATES, NO_ANSWER} if alone else gates - common)
        )

    @property
    def faulty_machines(self) -> Mapping[str, FailedGate]:
        """Bad nodes with a failed check of doctor that no job or user causes, and the gate with that check as its only
        evidence: a site may drain them."""
        found = {node: [fault for gate in self.closed[node] for fault in _list_faults(gate)] for node in self.bad_nodes}
        return {node: faults[0] for node, faults in found.items() if faults}


def _list_faults(gate: FailedGate) -> Iterable[FailedGate]:
    for check, line in zip(gate.checks, gate.evidence, strict=False):
        if is_node_fault(check):
            yield replace(gate, evidence=(line,), checks=(check,))


def judge_nodes(folder: Path, nodes: Sequence[str]) -> NodesVerdict:
    """Return the verdict on the documents FOLDER/NODE.json; a node without one counts as failed."""
    failed = {node: _read_failed_gates(folder / f"{node}.json") for node in nodes}
    return NodesVerdict(tuple(nodes), {node: gates for node, gates in failed.items() if gates})


def _read_failed_gates(path: Path) -> tuple[FailedGate, ...]:
    document = read_record(path)
    if document is None:
        no_result = _("no result from this node: envcheck did not start, or did not finish in time")
        return (FailedGate(NO_ANSWER, no_result, _("see slurm.log")),)
    gates, error = document.get("gates"), document.get("error")
    if isinstance(gates, list):
        return tuple(_parse_gate(gate) for gate in gates if _has_failed(gate))
    if not isinstance(error, str):
        return ()
    return (FailedGate("train", _clean_text(error), _clean_text(document.get("next"))),)


def read_record(path: Path) -> dict[str, Any] | None:
    """Return a preflight result or run record, or None if the file is neither."""
    document = read_document(path)
    return upgrade_record(document) if document is not None and isinstance(document.get("state"), str) else None


def read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if it is missing, too large or invalid."""
    try:
        if path.stat().st_size > LIMIT:
            return None
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _has_failed(gate: Any) -> bool:
    return isinstance(gate, dict) and gate.get("status") == "FAIL" and isinstance(gate.get("name"), str)


def _parse_gate(gate: Mapping[str, Any]) -> FailedGate:
    remedy = gate.get("remedy")
    words = _clean_text(remedy.get("words")) if isinstance(remedy, dict) else ""
    seen = restore(_clean_text(gate.get("seen")), gate.get("message"), _clean_text)
    return FailedGate(
        _clean_text(gate["name"]), seen, words, _read_texts(gate, "evidence"), _read_texts(gate, "checks")
    )


def _read_texts(gate: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = gate.get(key)
    return tuple(_clean_text(text) for text in texts[:MOST_LINES]) if isinstance(texts, list) else ()


def _clean_text(value: object) -> str:
    """Return untrusted text without control characters, at most 400 characters."""
    return "".join(c if c.isprintable() else "?" for c in str(value or ""))[:400]


def describe_verdict(verdict: NodesVerdict) -> Iterable[str]:
    """Yield lines for people: the failed nodes, then each failed gate once with its nodes."""
    from envcheck.core.host_names import fold_hosts

    many = len(verdict.nodes)
    if verdict.closed and not {gate.name for gates in verdict.closed.values() for gate in gates} - {*OPTION_GATES}:
        yield _("envcheck: the options of the job are wrong; its nodes are not at fault")
        for gate, nodes in group_by_reason(verdict):
            yield from _describe_gate(gate, nodes)
        return
    if not verdict.closed:
        yield _("envcheck: all preflight checks of {nodes} passed", nodes=fold_hosts(verdict.nodes))
        return
    yield ngettext(
        "envcheck: {closed} of {count} node failed the preflight checks: {nodes}",
        "envcheck: {closed} of {count} nodes failed the preflight checks: {nodes}",
        many,
        closed=len(verdict.closed),
        nodes=fold_hosts(verdict.closed),
    )
    for gate, nodes in group_by_reason(verdict):
        yield from _describe_gate(gate, nodes)


def _describe_gate(gate: FailedGate, nodes: str) -> Iterable[str]:
    yield _("  {nodes}: {gate}: {seen}", nodes=nodes, gate=gate.name, seen=gate.seen)
    yield from (f"    {line}" for line in gate.evidence if line != gate.seen)
    if gate.next_step:
        yield _("    next: {next_step}", next_step=fill(gate.next_step))


def group_by_reason(verdict: NodesVerdict) -> list[tuple[FailedGate, str]]:
    """Return each failed gate once, with all nodes that have it in folded form: node[01-07]."""
    from envcheck.core.host_names import fold_hosts

    found: dict[FailedGate, list[str]] = {}
    for node, gates in verdict.closed.items():
        for gate in gates:
            found.setdefault(gate, []).append(node)
    return [(gate, fold_hosts(nodes)) for gate, nodes in found.items()]


def list_verdict_values(verdict: NodesVerdict) -> dict[str, Any]:
    """Return the verdict as verdict.json and `envcheck slurm verdict --json` have it."""
    failed = {node: [_list_gate_values(gate) for gate in gates] for node, gates in verdict.closed.items()}
    return {"nodes": list(verdict.nodes), "failed_checks": failed, "bad_nodes": list(verdict.bad_nodes)}


def _list_gate_values(gate: FailedGate) -> dict[str, Any]:
    return {
        "name": gate.name,
        "seen": gate.seen,
        "message": describe(gate.seen),
        "next": gate.next_step,
        "evidence": list(gate.evidence),
        "checks": list(gate.checks),
    }


def parse_verdict_values(values: Mapping[str, Any]) -> NodesVerdict:
    """Return the verdict that `list_verdict_values` wrote; values of the wrong type are skipped."""
    nodes = tuple(str(node) for node in values.get("nodes") or ())
    closed = {
        str(node): tuple(_parse_failed_gate(gate) for gate in gates if isinstance(gate, dict))
        for node, gates in dict(values.get("failed_checks") or {}).items()
        if isinstance(gates, list)
    }
    return NodesVerdict(nodes, closed)


def _parse_failed_gate(gate: Mapping[str, Any]) -> FailedGate:
    return FailedGate(
        _clean_text(gate.get("name")),
        restore(_clean_text(gate.get("seen")), gate.get("message"), _clean_text),
        _clean_text(gate.get("next")),
        _read_texts(gate, "evidence"),
        _read_texts(gate, "checks"),
    )

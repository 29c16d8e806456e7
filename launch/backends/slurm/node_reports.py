"""What the nodes of a job saw in themselves: a document of `train --gates --json` each, judged together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 64 << 20  # bytes of a document; one of 16 cards has 200 kB
# A gate that is closed by the machine itself, whatever the job: a node that a site would want out of use.
MACHINE = ("gate.doctor", "gate.devices", "gate.topology")
MUTE = "look.answer"


@dataclass(frozen=True)
class ClosedGate:
    """A closed gate of a node: its name, what was seen, and what opens it."""

    gate: str
    seen: str
    next_step: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """In one line: the first check behind the gate and what it saw, without what to do."""
        return (next(iter(self.evidence), "") or self.seen).partition(". ")[0].rstrip(".")


@dataclass(frozen=True)
class NodesVerdict:
    """`closed` has the nodes that are not fit; `bad` those of them that another node could replace."""

    nodes: tuple[str, ...]
    closed: Mapping[str, tuple[ClosedGate, ...]]

    @property
    def bad(self) -> tuple[str, ...]:
        """What all of several nodes have alike is the job's fault, and goes with it to any other node."""
        own = {node: {shut.gate for shut in self.closed[node]} for node in self.closed}
        common = set.intersection(*own.values()) if len(own) == len(self.nodes) > 1 else set()
        alone = len(self.nodes) == 1
        return tuple(node for node, gates in own.items() if (gates & {*MACHINE, MUTE} if alone else gates - common))

    @property
    def sick(self) -> Mapping[str, ClosedGate]:
        """The bad nodes whose machine itself is at fault, with the first reason."""
        found = {node: [shut for shut in self.closed[node] if shut.gate in MACHINE] for node in self.bad}
        return {node: shuts[0] for node, shuts in found.items() if shuts}


def judged(folder: Path, nodes: Sequence[str]) -> NodesVerdict:
    """The documents that lie in the folder by the nodes' names."""
    closed = {node: _shut(folder / f"{node}.json") for node in nodes}
    return NodesVerdict(tuple(nodes), {node: shuts for node, shuts in closed.items() if shuts})


def _shut(path: Path) -> tuple[ClosedGate, ...]:
    said = read(path)
    if said is None:
        return (ClosedGate(MUTE, "no answer: its envcheck did not start, or did not end in time", "see slurm.log"),)
    gates, error = said.get("gates"), said.get("error")
    if isinstance(gates, list):
        return tuple(_gate(gate) for gate in gates if _is_shut(gate))
    return (ClosedGate("train", _text(error), _text(said.get("next"))),) if isinstance(error, str) else ()


def read(path: Path) -> dict[str, Any] | None:
    """A look's or a run's record; None for what is none."""
    said = document(path)
    return said if said is not None and isinstance(said.get("state"), str) else None


def document(path: Path) -> dict[str, Any] | None:
    """None for what is no document of ours."""
    try:
        if path.stat().st_size > LIMIT:
            return None
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _is_shut(gate: Any) -> bool:
    return isinstance(gate, dict) and gate.get("status") == "FAIL" and isinstance(gate.get("name"), str)


def _gate(gate: Mapping[str, Any]) -> ClosedGate:
    remedy = gate.get("remedy")
    words = _text(remedy.get("words")) if isinstance(remedy, dict) else ""
    evidence = gate.get("evidence")
    lines = tuple(_text(line) for line in evidence if isinstance(line, str)) if isinstance(evidence, list) else ()
    return ClosedGate(_text(gate["name"]), _text(gate.get("seen")), words, lines[:8])


def _text(value: object) -> str:
    """What a node says moves no cursor and fills no page."""
    return "".join(c if c.isprintable() else "?" for c in str(value or ""))[:400]


def told(verdict: NodesVerdict) -> Iterable[str]:
    """For people: which nodes, then each reason once with all nodes that have it."""
    from envcheck.core.host_names import fold_hosts

    many = len(verdict.nodes)
    if not verdict.closed:
        yield f"envcheck: all gates of {fold_hosts(verdict.nodes)} are open"
        return
    yield f"envcheck: {len(verdict.closed)} of {many} nodes {'is' if many == 1 else 'are'} not fit: " + fold_hosts(
        verdict.closed
    )
    for shut, nodes in alike(verdict):
        yield f"  {nodes}: {shut.gate}: {shut.seen}"
        yield from (f"    {line}" for line in shut.evidence if line != shut.seen)
        if shut.next_step:
            yield f"    next: {shut.next_step}"


def alike(verdict: NodesVerdict) -> list[tuple[ClosedGate, str]]:
    """Each reason once, with all nodes that have it: node[01-07]."""
    from envcheck.core.host_names import fold_hosts

    found: dict[ClosedGate, list[str]] = {}
    for node, shuts in verdict.closed.items():
        for shut in shuts:
            found.setdefault(shut, []).append(node)
    return [(shut, fold_hosts(nodes)) for shut, nodes in found.items()]


def values(verdict: NodesVerdict) -> dict[str, Any]:
    """For programs, and for `envcheck runs`."""
    closed = {
        node: [vars(shut) | {"evidence": list(shut.evidence)} for shut in s] for node, s in verdict.closed.items()
    }
    return {"nodes": list(verdict.nodes), "closed": closed, "bad": list(verdict.bad)}


def of_values(said: Mapping[str, Any]) -> NodesVerdict:
    """Back from `values`, as far as it is what we wrote."""
    nodes = tuple(str(node) for node in said.get("nodes") or ())
    closed = {
        str(node): tuple(_back(shut) for shut in shuts if isinstance(shut, dict))
        for node, shuts in dict(said.get("closed") or {}).items()
        if isinstance(shuts, list)
    }
    return NodesVerdict(nodes, closed)


def _back(shut: Mapping[str, Any]) -> ClosedGate:
    evidence = shut.get("evidence")
    lines = tuple(_text(line) for line in evidence) if isinstance(evidence, list) else ()
    return ClosedGate(_text(shut.get("gate")), _text(shut.get("seen")), _text(shut.get("next_step")), lines)

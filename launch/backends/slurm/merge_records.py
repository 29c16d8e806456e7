"""Merge the records of all nodes of a job into one: how it ended, its losses, and which node failed first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core.messages import Message, _, join, restore
from launch.backends.slurm import node_reports
from launch.backends.slurm.node_reports import FailedGate
from launch.run.record import NAME, list_error_values
from launch.run.states import (
    ACTIVE,
    BY_DEADLINE,
    BY_RULE,
    BY_USER,
    ENDS,
    FAILED,
    LOST,
    REFUSED,
    SUCCEEDED,
    UNSTARTED,
    find_end,
    list_end_values,
)

MAX_NODES = 4096
MOST_GATES = 8  # in the error of a record
# The job ends like its worst node; worst first.
WORST_FIRST = (FAILED, BY_RULE, BY_DEADLINE, UNSTARTED, *reversed(ACTIVE), BY_USER, SUCCEEDED)
SLURM_STATES = {"CANCELLED": BY_USER, "TIMEOUT": BY_DEADLINE, "NODE_FAIL": LOST, "BOOT_FAIL": LOST}
Record = dict[str, Any]


@dataclass(frozen=True)
class NodeRecord:
    """The run of one node: `number` is its rank in the job, `values` its run.json."""

    number: int
    folder: Path
    values: Mapping[str, Any]

    @property
    def state(self) -> str:
        """The state of the node's run, such as running or failed."""
        return str(self.values["state"])


def read_node_records(run: Path) -> tuple[NodeRecord, ...]:
    """Return the newest record of each node by rank; a requeued job has older ones too."""
    found = (_read_newest_record(run / f"node-{number}", number) for number in _list_node_numbers(run))
    return tuple(node for node in found if node is not None)


def _list_node_numbers(run: Path) -> list[int]:
    try:
        names = [path.name.removeprefix("node-") for path in run.glob("node-*")]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal() and len(name) < 6)[:MAX_NODES]


def _read_newest_record(folder: Path, number: int) -> NodeRecord | None:
    for path in sorted(folder.glob(f"*/{NAME}"), reverse=True):
        if (values := node_reports.read_record(path)) is not None:
            return NodeRecord(number, path.parent, values)
    return None


def read_refused_verdict(run: Path) -> Record | None:
    """Return the newest verdict.json of the run if preflight checks failed in it, else None."""
    found = sorted(run.glob("look*/verdict.json"), key=lambda path: (len(path.parent.name), path.parent.name))
    verdict = node_reports.read_document(found[-1]) if found else None
    return verdict if verdict and verdict.get("failed_checks") else None


def build_job_record(
    record: Mapping[str, Any], state: str, nodes: Sequence[NodeRecord], refused: Record | None
) -> Record:
    """Return the record of an ended job; `state` is Slurm's job state, `refused` the verdict that stopped it."""
    how = choose_end(state, nodes, refused, int(record["slurm"].get("nodes") or 1))
    best = max(nodes, key=lambda node: len(_as_list(node.values.get("loss"))), default=None)
    first = _find_first_failed(nodes)
    done: Record = {
        **record,
        **list_end_values(how),
        "exit": {"code": ENDS[how].code, "status": None},
        "seconds": max(
            (s for node in nodes if isinstance(s := node.values.get("seconds"), (int, float))), default=None
        ),
        "ended": max((t for node in nodes if isinstance(t := node.values.get("ended"), str)), default=None),
        "loss": _as_list(best.values.get("loss")) if best else [],
        "first_failed_worker": first.values.get("first_failed_worker") if first else None,
        "diagnoses": [one for node in _sort_by_blame(nodes) for one in _as_list(node.values.get("diagnoses"))][:20],
        "checkpoints": next((c for node in nodes if (c := _as_list(node.values.get("checkpoints")))), []),
        **list_error_values(_describe_error(refused, nodes, first)),
    }
    done["slurm"] = {**record["slurm"], "state": state, "parts": [_summarize_node(node) for node in nodes]}
    return done


def choose_end(state: str, nodes: Sequence[NodeRecord], refused: Record | None, count: int) -> str:
    """Return a key of ENDS: from Slurm's job state if Slurm ended the job, else the worst of its `count` nodes."""
    if state in SLURM_STATES:
        return SLURM_STATES[state]
    if not nodes:
        return REFUSED if refused else LOST
    ends = [find_end(node.values) for node in nodes]
    worst = min(ends, key=lambda end: WORST_FIRST.index(end) if end in WORST_FIRST else 0)
    if worst in ACTIVE or (worst == SUCCEEDED and len(nodes) < count):
        return LOST
    return worst if worst in ENDS else FAILED


def _sort_by_blame(nodes: Sequence[NodeRecord]) -> Iterable[NodeRecord]:
    """Return the nodes that failed before those that only lost their peers."""
    return sorted(nodes, key=lambda node: node.values.get("first_failed_worker") is None)


def _find_first_failed(nodes: Sequence[NodeRecord]) -> NodeRecord | None:
    return next((node for node in nodes if isinstance(node.values.get("first_failed_worker"), dict)), None)


def _describe_failed_gate(gate: FailedGate, hosts: str) -> Message:
    return _("{hosts}: {seen}", hosts=hosts, seen=_("{check}: {seen}", check=gate.name, seen=gate.reason))


def _describe_error(refused: Record | None, nodes: Sequence[NodeRecord], first: NodeRecord | None) -> Message | None:
    if refused and not nodes:
        groups = node_reports.group_by_reason(node_reports.parse_verdict_values(refused))
        return join("; ", (_describe_failed_gate(gate, hosts) for gate, hosts in groups[:MOST_GATES]))
    if first:
        return _("node {number} failed first; see {record}", number=first.number, record=first.folder / NAME)
    failed = next((node.values for node in nodes if isinstance(node.values.get("error"), str)), None)
    return restore(failed["error"], failed.get("error_message")) if failed else None


def _summarize_node(node: NodeRecord) -> Record:
    status = node.values.get("exit")
    code = status.get("code") if isinstance(status, dict) else None
    return {"node": node.number, "state": node.state, "code": code, "folder": str(node.folder)}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

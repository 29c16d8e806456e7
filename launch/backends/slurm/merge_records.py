"""The records of all nodes of a job as one: how it went, what it learnt, who failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core import errors
from launch.backends.slurm import node_reports
from launch.run.record import NAME

NODES = 4096
# The worst first: how one of its nodes ended is how the job ended.
WORST = ("failed", "stopped", "deadline", "unstarted", "running", "interrupted", "finished")
SLURM = {"CANCELLED": "interrupted", "TIMEOUT": "deadline", "NODE_FAIL": "lost", "BOOT_FAIL": "lost"}
CODES = {
    "finished": errors.FIT,
    "refused": errors.UNFIT,
    "failed": errors.TRAINING_FAILED,
    "stopped": errors.TRAINING_FAILED,
    "deadline": errors.TRAINING_FAILED,
    "unstarted": errors.STEP_FAILED,
    "interrupted": errors.INTERRUPTED,
    "lost": errors.UNTOLD,
}
Record = dict[str, Any]


@dataclass(frozen=True)
class NodeRecord:
    """A node's own run: its number in the job, its folder and record."""

    number: int
    folder: Path
    said: Mapping[str, Any]

    @property
    def state(self) -> str:
        return str(self.said["state"])


def parts(run: Path) -> tuple[NodeRecord, ...]:
    """The newest record of each node: a job that was put back has older ones."""
    found = (_newest(run / f"node-{number}", number) for number in _numbers(run))
    return tuple(part for part in found if part is not None)


def _numbers(run: Path) -> list[int]:
    try:
        names = [path.name.removeprefix("node-") for path in run.glob("node-*")]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal() and len(name) < 6)[:NODES]


def _newest(folder: Path, number: int) -> NodeRecord | None:
    for path in sorted(folder.glob(f"*/{NAME}"), reverse=True):
        if (said := node_reports.read(path)) is not None:
            return NodeRecord(number, path.parent, said)
    return None


def look(run: Path) -> Record | None:
    """The last verdict over the nodes' looks, where some gate was closed."""
    found = sorted(run.glob("look*/verdict.json"), key=lambda path: (len(path.parent.name), path.parent.name))
    said = node_reports.document(found[-1]) if found else None
    return said if said and said.get("closed") else None


def folded(said: Mapping[str, Any], state: str, there: Sequence[NodeRecord], refused: Record | None) -> Record:
    """The job's record with its end; `state` is Slurm's word for it."""
    how = ended(state, there, refused, int(said["slurm"].get("nodes") or 1))
    best = max(there, key=lambda part: len(_list(part.said.get("loss"))), default=None)
    first = _first_failed(there)
    done: Record = {
        **said,
        "state": how,
        "exit": {"code": CODES[how], "status": None},
        "seconds": max((s for part in there if isinstance(s := part.said.get("seconds"), (int, float))), default=None),
        "ended": max((t for part in there if isinstance(t := part.said.get("ended"), str)), default=None),
        "loss": _list(best.said.get("loss")) if best else [],
        "first_failed_worker": first.said.get("first_failed_worker") if first else None,
        "diagnoses": [one for part in _blamed(there) for one in _list(part.said.get("diagnoses"))][:20],
        "checkpoints": next((c for part in there if (c := _list(part.said.get("checkpoints")))), []),
        "error": _error(refused, there, first),
    }
    done["slurm"] = {**said["slurm"], "state": state, "parts": [_short(part) for part in there]}
    return done


def ended(state: str, there: Sequence[NodeRecord], refused: Record | None, nodes: int) -> str:
    """A word of ours: from Slurm's, where it ended the job; else the worst of the nodes'."""
    if state in SLURM:
        return SLURM[state]
    if not there:
        return "refused" if refused else "lost"
    worst = min(there, key=lambda part: WORST.index(part.state) if part.state in WORST else 0).state
    if worst == "running" or (worst == "finished" and len(there) < nodes):
        return "lost"
    return worst if worst in CODES else "failed"


def _blamed(there: Sequence[NodeRecord]) -> Iterable[NodeRecord]:
    """Those that failed before those that only lost their peers."""
    return sorted(there, key=lambda part: part.said.get("first_failed_worker") is None)


def _first_failed(there: Sequence[NodeRecord]) -> NodeRecord | None:
    return next((part for part in there if isinstance(part.said.get("first_failed_worker"), dict)), None)


def _error(refused: Record | None, there: Sequence[NodeRecord], first: NodeRecord | None) -> str | None:
    if refused and not there:
        told = node_reports.alike(node_reports.of_values(refused))
        return "; ".join(f"{nodes}: {shut.gate}: {shut.reason}" for shut, nodes in told)[:600]
    if first:
        return f"node {first.number} failed first: see {first.folder / NAME}"
    return next((e for part in there if isinstance(e := part.said.get("error"), str)), None)


def _short(part: NodeRecord) -> Record:
    status = part.said.get("exit")
    code = status.get("code") if isinstance(status, dict) else None
    return {"node": part.number, "state": part.state, "code": code, "folder": str(part.folder)}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""The states of a run and the ways in which it ends: for records, texts, metrics, schedulers and chats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors

STARTING, RUNNING = "starting", "running"  # recorded by the supervisor
QUEUED = "queued"  # waiting for a scheduler
# Recorded as running, but the supervising envcheck has ended: it was killed, or the machine went down.
ORPHANED = "orphaned"  # the training's processes still run
LOST = "lost"  # no process is left
UNKNOWN = "unknown"  # of another user or host: its processes cannot be seen from here
SUCCEEDED, FAILED, STOPPED = "succeeded", "failed", "stopped"
REFUSED = "refused"  # by a failed preflight check
READY = "ready"  # every preflight check passed, and nothing was to be started
UNSTARTED = "unstarted"  # its program could not be started
ACTIVE = (STARTING, RUNNING)
BY_USER, BY_RULE, BY_DEADLINE = "user", "rule", "deadline"  # why a run was stopped


@dataclass(frozen=True)
class EndKind:
    """A way in which a training ends: the state, envcheck's exit code, and of a stopped one why."""

    state: str
    code: int
    stop_reason: str | None = None


# By the value of TrainingEnd.how: the state, or the reason of a stop.
ENDS: Mapping[str, EndKind] = {
    SUCCEEDED: EndKind(SUCCEEDED, errors.SUCCESS),
    FAILED: EndKind(FAILED, errors.TRAINING_FAILED),
    UNSTARTED: EndKind(UNSTARTED, errors.STEP_FAILED),
    REFUSED: EndKind(REFUSED, errors.CHECK_FAILED),
    LOST: EndKind(LOST, errors.UNDETERMINED),
    BY_USER: EndKind(STOPPED, errors.INTERRUPTED, BY_USER),
    BY_RULE: EndKind(STOPPED, errors.TRAINING_FAILED, BY_RULE),
    BY_DEADLINE: EndKind(STOPPED, errors.TRAINING_FAILED, BY_DEADLINE),
}
# States that the first records of version 0.1 have; their "stopped" has no reason, which was always a rule.
OLD_ENDS = {"finished": SUCCEEDED, "interrupted": BY_USER, "deadline": BY_DEADLINE, STOPPED: BY_RULE}


def list_end_values(how: str) -> dict[str, Any]:
    """Return state and stop_reason of a record for a key of ENDS."""
    return {"state": ENDS[how].state, "stop_reason": ENDS[how].stop_reason}


def find_end(record: Mapping[str, Any]) -> str:
    """Return the key of ENDS for a record, or its state while it has not ended so."""
    state = str(record.get("state"))
    return str(record.get("stop_reason") or OLD_ENDS[STOPPED]) if state == STOPPED else state


def upgrade_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with today's names of states, also in what it has of a job in a cluster and of its nodes."""
    nested = {key: _upgrade_job(record[key]) for key in ("kubernetes", "slurm") if isinstance(record.get(key), dict)}
    if record.get("state") not in OLD_ENDS or record.get("stop_reason"):
        return {**record, **nested}
    return {**record, **list_end_values(OLD_ENDS[str(record["state"])]), **nested}


def _upgrade_job(job: dict[str, Any]) -> dict[str, Any]:
    """`state` of a Slurm job is Slurm's word, which OLD_ENDS does not have."""
    parts = job.get("parts")
    upgraded = [_upgrade_state(part) for part in parts] if isinstance(parts, list) else None
    return {**_upgrade_state(job), **({} if upgraded is None else {"parts": upgraded})}


def _upgrade_state(part: Any) -> Any:
    """The state of a node or of an object in the cluster, which has no reason."""
    state = part.get("state") if isinstance(part, dict) else None
    if not isinstance(state, str) or state not in OLD_ENDS:
        return part
    return {**part, "state": ENDS[OLD_ENDS[state]].state}

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
# States that the first records of version 0.1 have.
OLD_ENDS = {"finished": SUCCEEDED, "interrupted": BY_USER, "deadline": BY_DEADLINE}


def list_end_values(how: str) -> dict[str, Any]:
    """Return state and stop_reason of a record for a key of ENDS."""
    return {"state": ENDS[how].state, "stop_reason": ENDS[how].stop_reason}


def find_end(said: Mapping[str, Any]) -> str:
    """Return the key of ENDS for a record, or its state while it has not ended so."""
    return str(said.get("stop_reason") or BY_USER) if said.get("state") == STOPPED else str(said.get("state"))


def upgrade_record(said: dict[str, Any]) -> dict[str, Any]:
    """Return the record with today's names of states."""
    state = said.get("state")
    if state in OLD_ENDS:
        return {**said, **list_end_values(OLD_ENDS[str(state)])}
    if state == STOPPED and "stop_reason" not in said:
        return {**said, "stop_reason": BY_RULE}
    return said

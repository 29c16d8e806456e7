"""The preflight results and the run record of one host of `train --hosts`, parsed as untrusted input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.messages import NOTHING, Message, _, join, restore, verbatim
from envcheck.core.model import Finding, Remedy, RemedyKind, Status
from envcheck.explain.localize import translate_recorded_headline
from envcheck.fleet.runner import CommandOutcome
from envcheck.report.summary import safe
from launch.run import run_text, states

MAX_SENTENCE = 400  # characters of a message
LINES = 8  # of a gate's evidence, which for gate.doctor lists the failed checks
UNREACHED, NOT_STARTED = "unreached", "not-started"  # states of a host without a run
UNREACHABLE = "fleet.reach"  # a host does not answer
REFUSED = "fleet.command"  # envcheck on the host rejected the command line


@dataclass(frozen=True)
class NodeOutcome:
    """How a host ended; `record` is its run.json, {} without one. `follows`: it ended because another host did."""

    host: str
    rank: int
    state: str
    code: int
    seen: Message = NOTHING
    record: Mapping[str, Any] | None = None
    follows: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether its exit code is not 0."""
        return self.code != errors.SUCCESS

    @property
    def folder(self) -> str:
        """The run folder on the host, "" without one."""
        return safe(str((self.record or {}).get("folder", "")))


def parse_document(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, {} if there is none."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def parse_gates(did: CommandOutcome) -> list[Finding]:
    """Return the preflight findings of a host; a failed finding if it returned none."""
    document = parse_document(did.text)
    try:
        found = [_parse_finding(each) for each in document.get("gates", [])]
    except (KeyError, TypeError, ValueError, AttributeError):
        found = []
    if did.code in (errors.SUCCESS, errors.CHECK_FAILED, errors.UNDETERMINED) and found:
        return found
    if did.code is None:
        return [Finding(UNREACHABLE, Status.FAIL, describe_failure(did), did.failure.remedy)]
    return [Finding(REFUSED if did.code == errors.USAGE else "fleet.answer", Status.FAIL, describe_failure(did))]


def _parse_finding(values: Mapping[str, Any]) -> Finding:
    remedy = values.get("remedy") or None
    return Finding(
        safe(str(values["name"])),
        Status[values["status"]],
        restore(str(values["seen"])[:MAX_SENTENCE], values.get("message"), safe),
        remedy
        and Remedy(
            RemedyKind(remedy["kind"]),
            verbatim(safe(str(remedy["words"]))),
            tuple(safe(str(c)) for c in remedy["commands"]),
        ),
        tuple(safe(str(line))[:MAX_SENTENCE] for line in values.get("evidence", ())[:LINES]),
    )


def describe_failure(did: CommandOutcome) -> Message:
    """Return the error of ssh, or the last error message of envcheck on the host."""
    if did.code is None:
        return join(": ", [did.failure.seen, *map(safe, did.failure.evidence[:1])])
    own = [line for line in did.last if line.startswith("envcheck: ")]
    return verbatim(safe(own[-1].removeprefix("envcheck: ") if own else " ".join(did.last[-1:]))[:MAX_SENTENCE])


def build_node_outcome(did: CommandOutcome, rank: int) -> NodeOutcome:
    """Return how a host ended: `state` is that of its record, lost if the connection broke, unreached if it never was
    established, not-started if the run was stopped before its turn."""
    if did.is_not_begun:
        return NodeOutcome(did.host, rank, NOT_STARTED, errors.INTERRUPTED)
    if did.code is None:
        return NodeOutcome(
            did.host, rank, states.LOST if did.begun else UNREACHED, errors.TRAINING_FAILED, describe_failure(did)
        )
    values = parse_document(did.text)
    state = str(values.get("state", states.FAILED))[:40]
    failed = values.get("first_failed_worker")
    follows = isinstance(failed, dict) and bool(failed.get("follows"))
    seen = (
        NOTHING
        if did.code in (errors.SUCCESS, errors.INTERRUPTED)
        else _describe_fault(values) or describe_failure(did)
    )
    code = did.code if did.code >= 0 else errors.TRAINING_FAILED
    return NodeOutcome(did.host, rank, safe(state), code, seen, values, follows)


def _describe_fault(values: Mapping[str, Any]) -> Message:
    """Return which check stopped the run or which worker failed first, and the first diagnosis; NOTHING if unknown."""
    failed, stopped, known = values.get("first_failed_worker"), values.get("stopped"), values.get("diagnoses")
    parts: list[Message] = []
    if isinstance(stopped, dict):
        seen = restore(str(stopped.get("seen")), stopped.get("message"), _plain)
        parts.append(_("{check}: {seen}", check=_plain(stopped.get("name")), seen=seen))
    elif isinstance(failed, dict):
        rank, code = _plain(failed.get("rank")), failed.get("code")
        how = run_text.describe_exit(code if isinstance(code, int) else None)
        parts.append(
            _("worker {rank} ended first, {how}, after losing its connection to another worker", rank=rank, how=how)
            if failed.get("follows")
            else _("worker {rank} failed first, {code}", rank=rank, code=how)
        )
    if isinstance(known, list) and known and isinstance(known[0], dict):
        parts.append(verbatim(_plain(translate_recorded_headline(known[0]))))
    return join("; ", filter(None, parts))


def _plain(value: object) -> str:
    return safe(str(value))[:MAX_SENTENCE]

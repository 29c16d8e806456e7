"""One node of a training over hosts: what its document says of its gates and of its run; it comes from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet.runner import Did
from envcheck.report.summary import safe
from launch.run import run_text

KEPT = 400  # characters of a sentence
LINES = 8  # of what a gate shows: of gate.doctor the checks that failed
REFUSED = "fleet.command"  # a host's envcheck says that the command is wrong


@dataclass(frozen=True)
class Node:
    """How it ended; `record` is its run.json, {} where none came.  `follows`: it lost another one."""

    host: str
    rank: int
    state: str
    code: int
    seen: str = ""
    record: Mapping[str, Any] | None = None
    follows: bool = False

    @property
    def bad(self) -> bool:
        return self.code != errors.FIT

    @property
    def folder(self) -> str:
        return safe(str((self.record or {}).get("folder", "")))


def document(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def gates(did: Did) -> list[Finding]:
    """What its gates saw; a host that did not say is a closed one."""
    said = document(did.text)
    try:
        found = [_finding(each) for each in said.get("gates", [])]
    except (KeyError, TypeError, ValueError, AttributeError):
        found = []
    if did.code in (errors.FIT, errors.UNFIT, errors.UNTOLD) and found:
        return found
    if did.code is None:
        return [Finding("fleet.reach", Status.FAIL, reason(did), did.why.remedy)]
    return [Finding(REFUSED if did.code == errors.USAGE else "fleet.answer", Status.FAIL, reason(did))]


def _finding(said: Mapping[str, Any]) -> Finding:
    remedy = said.get("remedy") or None
    return Finding(
        safe(str(said["name"])),
        Status[said["status"]],
        safe(str(said["seen"]))[:KEPT],
        remedy and Remedy(safe(str(remedy["words"])), tuple(safe(str(c)) for c in remedy["commands"])),
        tuple(safe(str(line))[:KEPT] for line in said.get("evidence", ())[:LINES]),
    )


def reason(did: Did) -> str:
    """What ssh said, or the host's own last sentence."""
    if did.code is None:
        return safe(": ".join([did.why.seen, *did.why.evidence[:1]]))
    own = [line for line in did.last if line.startswith("envcheck: ")]
    return safe(own[-1].removeprefix("envcheck: ") if own else " ".join(did.last[-1:]))[:KEPT]


def ended(did: Did, rank: int) -> Node:
    """`state` is its record's, lost where its connection broke, not-begun where it was to stop before."""
    if did.unbegun:
        return Node(did.host, rank, "not-begun", errors.INTERRUPTED)
    if did.code is None:
        return Node(did.host, rank, "lost" if did.begun else "unreached", errors.TRAINING_FAILED, reason(did))
    said = document(did.text)
    state = str(said.get("state", "failed"))[:40]
    failed = said.get("first_failed_worker")
    follows = isinstance(failed, dict) and bool(failed.get("follows"))
    seen = "" if did.code in (errors.FIT, errors.INTERRUPTED) else _seen(said) or reason(did)
    code = did.code if did.code >= 0 else errors.TRAINING_FAILED
    return Node(did.host, rank, safe(state), code, seen, said, follows)


def _seen(said: Mapping[str, Any]) -> str:
    """Whose fault it was there, in a sentence."""
    failed, stopped, known = said.get("first_failed_worker"), said.get("stopped"), said.get("diagnoses")
    words = []
    if isinstance(stopped, dict):
        words.append(f"{stopped.get('name')}: {stopped.get('seen')}")
    elif isinstance(failed, dict):
        code = failed.get("code")
        how = run_text.ended(code if isinstance(code, int) else None)
        lost = ", when it lost another one" if failed.get("follows") else ""
        words.append(f"worker {failed.get('rank')} was the first to end there, {how}{lost}")
    if isinstance(known, list) and known and isinstance(known[0], dict):
        words.append(str(known[0].get("says", "")))
    return safe("; ".join(filter(None, words)))[:KEPT]

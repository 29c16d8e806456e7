"""What a host answered to `provision --dry-run --json`, as a plan again; it comes from elsewhere, so nothing is taken
on trust but its words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core import errors
from envcheck.core.language import say
from envcheck.fleet.runner import Did
from envcheck.report.summary import safe
from installers.output.plan_text import as_text
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan, Step
from installers.recipes.by_hand import ByHand
from installers.state import journal

TEXT_LIMIT = 4000  # characters of one of its sentences
WIDEST = 100_000  # columns, so that nothing is folded


@dataclass(frozen=True, kw_only=True)
class RemoteStep(Step):
    """A step that another host would do, to be shown; of what `kind` it is and how long it takes, that host says."""

    kind: str
    reported_s: int

    @property
    def seconds(self) -> int:
        return self.reported_s


@dataclass(frozen=True)
class Looked:
    """`plan` is None where none came, and `why` says why then; `removes` are an undo's."""

    host: str
    code: int
    plan: Plan | None = None
    removes: tuple[str, ...] = ()
    why: str = ""
    document: Mapping[str, Any] | None = None

    @property
    def able(self) -> bool:
        """There is something to do, and nothing in the way."""
        return bool(self.plan and (self.plan.steps or self.removes) and not self.plan.obstacles)

    @property
    def state(self) -> str:
        if self.plan is None:
            return "refused" if self.code == errors.USAGE or self.document else "unreached"
        if self.plan.obstacles:
            return "blocked"
        return "planned" if self.able else "by-hand" if self.plan.by_hand else "ready"

    @property
    def seen(self) -> str:
        """A sentence about what keeps it from being done; "" where nothing does."""
        if self.plan is None:
            return self.why
        return self.plan.obstacle.why if self.plan.obstacle else ""

    def lines(self, width: int | None = None) -> list[str]:
        """The plan for people; as wide as the terminal, where no width is said."""
        if self.plan is None:
            return []
        texts = (
            [as_text(self.plan, width)]
            if not self.removes
            else [say("removes {}").format(what) for what in self.removes]
        )
        return [line_of(line) for text in texts for line in text.splitlines()]

    @property
    def alike(self) -> tuple[str, ...]:
        """To be compared with other hosts': a line for each sentence, and each host's own folder called the same."""
        folder = str(self.plan.folder) if self.plan else ""
        return tuple(line.replace(folder, "FOLDER") if folder else line for line in self.lines(WIDEST))

    @property
    def journal(self) -> str:
        return str(journal.path(self.plan.folder)) if self.plan else ""


def line_of(text: str) -> str:
    """Without what could move a cursor, its margin kept."""
    return " " * (len(text) - len(text.lstrip(" "))) + safe(text)


def looked(did: Did) -> Looked:
    if did.code is None:
        return Looked(did.host, errors.UNFIT, why=reason(did))
    said = document(did.text)
    try:
        if said is not None and said["recipe"] is not None:
            removes = tuple(_text(each) for each in said.get("removes", ()))
            return Looked(did.host, did.code, plan_of(said), removes, document=said)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    why = reason(did) or "what it answered is no plan"
    return Looked(did.host, did.code or errors.UNTOLD, why=why, document=said if did.code else None)


def reason(did: Did) -> str:
    """What a host said last, or what ssh did."""
    if did.code is None:
        found = did.why
        return f"{found.seen}{f': {found.evidence[0]}' if found.evidence else ''}"
    own = [line for line in did.last if line.startswith("envcheck: ")]
    return own[-1].removeprefix("envcheck: ") if own else " ".join(did.last[-1:])


def document(text: str) -> dict[str, Any] | None:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def plan_of(said: Mapping[str, Any]) -> Plan:
    """The plan that installers.output.plan_text.as_values wrote; raises where it is none."""
    return Plan(
        _text(said["recipe"]),
        Path(_text(said["folder"])),
        tuple(_step(each) for each in said["steps"]),
        _texts(said["satisfied"]),
        tuple(
            ByHand(_text(h["name"]), _text(h["why"]), _texts(h["commands"]), root=bool(h["root"]))
            for h in said["by_hand"]
        ),
        tuple(Obstacle(_text(o["why"]), _text(o["remedy"]), int(o["code"])) for o in said["obstacles"]),
        boxed=_text(said.get("boxed", "")),
        left_out=_texts(said["left_out"]),
        mind=_texts(said["mind"]),
        job=said["job"],
        assumed_host=_text(said["assumed_host"]),
        reason=_text(said["reason"]),
    )


def _step(said: Mapping[str, Any]) -> RemoteStep:
    title, why, changes, undo = (_text(said[key]) for key in ("title", "why", "changes", "undo"))
    return RemoteStep(
        title,
        why,
        changes,
        undo,
        int(said["size_mib"]),
        root=_text(said["root_why"]),
        kind=_text(said["name"]),
        reported_s=int(said["seconds"]),
    )


def _text(value: object) -> str:
    return str(value)[:TEXT_LIMIT]


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(_text(value) for value in values[:1000])

"""Parse the answer of a host to `provision --dry-run --json` as a plan; it is untrusted input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core import errors
from envcheck.core.language import translate
from envcheck.core.messages import Message, _, join, restore, verbatim
from envcheck.fleet.runner import CommandOutcome
from envcheck.report.summary import safe
from installers.output.plan_text import render_plan
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan, Step
from installers.recipes.manual_steps import ManualStep
from installers.state import journal

TEXT_LIMIT = 4000  # maximum characters of one text
WIDEST = 100_000  # columns, so that no line is wrapped


@dataclass(frozen=True, kw_only=True)
class RemoteStep(Step):
    """A step of another host, for display; the host reports its `kind` and its duration."""

    kind: str
    reported_s: int

    @property
    def duration_s(self) -> int:
        return self.reported_s


@dataclass(frozen=True)
class HostPlan:
    """The plan of a host; `plan` is None if it returned none, and `why` is the reason; `removes` is for an undo."""

    host: str
    code: int
    plan: Plan | None = None
    removes: tuple[Message, ...] = ()
    why: str = ""
    document: Mapping[str, Any] | None = None

    @property
    def is_actionable(self) -> bool:
        """Return whether there is something to do and no obstacle."""
        return bool(self.plan and (self.plan.steps or self.removes) and not self.plan.obstacles)

    @property
    def plan_state(self) -> str:
        """Return the host's state: planned, ready, manual, blocked, refused or unreached."""
        if self.plan is None:
            return "refused" if self.code == errors.USAGE or self.document else "unreached"
        if self.plan.obstacles:
            return "blocked"
        return "planned" if self.is_actionable else "manual" if self.plan.manual_steps else "ready"

    @property
    def blocking_reason(self) -> str:
        """Return why the plan cannot be carried out; "" if it can."""
        if self.plan is None:
            return self.why
        return self.plan.first_obstacle.why if self.plan.first_obstacle else ""

    def render_lines(self, width: int | None = None) -> list[str]:
        """Return the lines of the plan, `width` columns wide, by default as wide as the terminal."""
        if self.plan is None:
            return []
        texts = (
            [render_plan(self.plan, width)]
            if not self.removes
            else [translate(_("remove {what}", what=what)) for what in self.removes]
        )
        return [sanitize_line(line) for text in texts for line in text.splitlines()]

    @property
    def comparable_lines(self) -> tuple[str, ...]:
        """Return unwrapped lines to compare with other hosts; the host's own folder is replaced by FOLDER."""
        folder = str(self.plan.folder) if self.plan else ""
        return tuple(line.replace(folder, "FOLDER") if folder else line for line in self.render_lines(WIDEST))

    @property
    def journal_path(self) -> str:
        """Return the path of the journal on the host; "" without a plan."""
        return str(journal.journal_path(self.plan.folder)) if self.plan else ""


def sanitize_line(text: str) -> str:
    """Return the line without control characters; its indentation is kept."""
    return " " * (len(text) - len(text.lstrip(" "))) + safe(text)


def parse_answer(outcome: CommandOutcome) -> HostPlan:
    """Return the plan in the answer of a host, or a HostPlan with the reason why there is none."""
    if outcome.code is None:
        return HostPlan(outcome.host, errors.CHECK_FAILED, why=explain_failure(outcome))
    document = parse_document(outcome.text)
    try:
        if document is not None and document["recipe"] is not None:
            removes = _read_messages(document, document.get("removes", ()))
            return HostPlan(outcome.host, outcome.code, parse_plan(document), removes, document=document)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    why = explain_failure(outcome) or _("the host did not return a valid plan")
    code = outcome.code or errors.UNDETERMINED
    return HostPlan(outcome.host, code, why=why, document=document if outcome.code else None)


def explain_failure(outcome: CommandOutcome) -> Message:
    """Return the last message of a host, or of ssh if the connection failed."""
    if outcome.code is None:
        found = outcome.failure
        return join(": ", [found.seen, *found.evidence[:1]])
    own = [line for line in outcome.last if line.startswith("envcheck: ")]
    return verbatim(own[-1].removeprefix("envcheck: ") if own else " ".join(outcome.last[-1:]))


def parse_document(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`; None if it is not one."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def parse_plan(document: Mapping[str, Any]) -> Plan:
    """Return the plan in a document of installers.output.plan_text.build_document.

    Raises KeyError, TypeError, ValueError or AttributeError if it is not valid.
    """
    return Plan(
        _limit_text(document["recipe"]),
        Path(_limit_text(document["folder"])),
        tuple(_parse_step(document, step) for step in document["steps"]),
        _read_messages(document, document["satisfied"]),
        tuple(
            ManualStep(
                _limit_text(h["name"]),
                read_message(document, h["why"]),
                _limit_texts(h["commands"]),
                root=bool(h["root"]),
            )
            for h in document["manual_steps"]
        ),
        tuple(
            Obstacle(read_message(document, o["why"]), read_message(document, o["remedy"]), int(o["code"]))
            for o in document["obstacles"]
        ),
        container=_limit_text(document.get("container", "")),
        skipped=_read_messages(document, document["skipped"]),
        notes=_read_messages(document, document["notes"]),
        job=document["job"],
        assumed_host=read_message(document, document["assumed_host"]),
        reason=read_message(document, document["reason"]),
    )


def _parse_step(document: Mapping[str, Any], step: Mapping[str, Any]) -> RemoteStep:
    title, why, changes, undo = (read_message(document, step[key]) for key in ("title", "why", "changes", "undo"))
    return RemoteStep(
        title,
        why,
        changes,
        undo,
        int(step["size_mib"]),
        root=read_message(document, step["root_why"]),
        kind=_limit_text(step["name"]),
        reported_s=int(step["seconds"]),
    )


def read_message(document: Mapping[str, Any], text: object) -> Message:
    """Return a text of the document as a message, with template and values if the document has them."""
    described = document.get("messages")
    return restore(str(text), described.get(str(text)) if isinstance(described, dict) else None, _limit_text)


def _read_messages(document: Mapping[str, Any], texts: Any) -> tuple[Message, ...]:
    return tuple(read_message(document, text) for text in _limit_texts(texts))


def _limit_text(value: object) -> str:
    return str(value)[:TEXT_LIMIT]


def _limit_texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(_limit_text(value) for value in values[:1000])

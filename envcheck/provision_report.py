"""How provisioning looks: its plan as text or JSON values, and its progress on standard error."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from envcheck.units import MIB, mib
from installers.plan import Plan
from installers.progress import Event

SCHEMA = 1


def as_text(plan: Plan) -> str:
    """The plan for people: what is so already, what would be done and why, what is left to a person."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    yield f"{plan.recipe} in {plan.folder}"
    for fact in plan.satisfied:
        yield f"  already so   {fact}"
    for number, step in enumerate(plan.steps, 1):
        size = f", about {mib(step.size_mib)}" if step.size_mib else ""
        yield f"  step {number}       {step.title}"
        yield f"               why: {step.why}; changes: {step.changes}{size}"
        yield f"               undo: {step.undo}"
    for hand in plan.by_hand:
        yield f"  by hand      {hand.name}: {hand.why}"
        yield from (f"               $ {command}" for command in hand.commands)
    if plan.obstacle:
        yield f"  in the way   {plan.obstacle.why}"
        yield f"               next: {plan.obstacle.remedy}"
    elif not plan.steps and not plan.by_hand:
        yield "  nothing to do"


def as_values(plan: Plan, result: str, performed: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """The document of --json; `result` is ready, planned, done, declined, by-hand, removed or failed."""
    return {
        "schema": SCHEMA,
        "verb": "provision",
        "result": result,
        "recipe": plan.recipe,
        "folder": str(plan.folder),
        "satisfied": list(plan.satisfied),
        "steps": [
            {key: value for key, value in asdict(step).items() if key not in ("packages", "again")}
            | {"packages": [package.name + package.specifier for package in step.packages]}
            for step in plan.steps
        ],
        "by_hand": [asdict(hand) for hand in plan.by_hand],
        "obstacle": asdict(plan.obstacle) if plan.obstacle else None,
        "performed": [{"step": step, "did": did} for step, did in performed],
    }


class Screen:
    """Progress on standard error: a moving line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = self._console.status("") if self._console.is_terminal else None
        self._step, self._told = "", ""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def show(self, event: Event) -> None:
        if event.kind == "begin":
            self._step = event.text
            self._line(f"-> {event.text}")
        elif event.kind == "end":
            self._line(f"   done: {textwrap.shorten(event.text, 160, placeholder=' ...')}")
        elif event.kind == "bytes":
            self._bytes(event)
        else:
            self._line(f"   {event.text}")

    def _line(self, text: str) -> None:
        if not self._status:
            print(text, file=sys.stderr, flush=True)
            return
        self._console.print(text, markup=False)
        self._status.update(self._step.replace("[", r"\["))
        self._status.start()

    def _bytes(self, event: Event) -> None:
        """On a terminal the line moves; elsewhere each file is told once."""
        if self._status:
            share = f"{event.done / MIB:.0f} of {event.total / MIB:.0f} MiB"
            self._status.update(f"downloading {event.text} {share}".replace("[", r"\["))
        elif event.text != self._told and event.total > MIB:
            self._told = event.text
            self._line(f"   downloading {event.text} ({event.total / MIB:.0f} MiB)")

"""How provisioning looks: its plan as text or JSON values, and its progress on standard error."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import outcome
from envcheck.core.language import label, say
from envcheck.core.language.width import columns as wide
from envcheck.core.language.width import wrap
from envcheck.core.signals import unheard
from envcheck.core.units import MIB, mib
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.select import NoFittingRecipeError
from installers.plan.step import Plan, Step
from installers.state.progress import Event

if TYPE_CHECKING:
    from rich.progress import Progress


MARGIN = " " * 15  # in front of what belongs to a step


def as_text(plan: Plan, width: int | None = None, whole: bool = False) -> str:
    """The plan for people: what is so already, what would be done and why, what is left to a person.

    `width` is the terminal's by default; words to paste are never broken.  `whole`: a container's lists to their end.
    """
    return folded(_lines(plan, None if whole else _columns(width)), width)


def _columns(width: int | None) -> int:
    return max(50, width or shutil.get_terminal_size((100, 24)).columns)


def folded(lines: Iterable[str], width: int | None = None) -> str:
    columns = _columns(width)
    return "\n".join(line for text in lines for line in _folded(text, columns))


def _long(step: Step) -> str:
    """ "" for what is over in a moment."""
    seconds = step.seconds
    if step.tells_time or seconds < 30:
        return ""
    told = f"{max(1, round(seconds / 60))} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
    return say(", some {}").format(told)


def _folded(text: str, columns: int) -> list[str]:
    if wide(text) <= columns or text.lstrip().startswith("$ "):
        return [text]
    head = next((n for n in range(len(text)) if wide(text[:n]) >= len(MARGIN)), 0)
    begun = head if text.startswith("  ") and text[head - 1] == " " else len(text) - len(text.lstrip(" "))
    return wrap(text[begun:], columns, text[:begun], MARGIN)


def _root(step: Step) -> str:
    return say(step.root_words) if step.root else label(step.root_words)


def row(head: str, text: str) -> str:
    """What begins a line, as wide as the margin."""
    return f"  {head}{' ' * max(1, len(MARGIN) - 2 - wide(head))}{text}"


def _lines(plan: Plan, columns: int | None) -> Iterator[str]:
    """A container's lists are cut to fit `columns`."""
    where = say(" in the container {}" if plan.boxed else " in {}")
    if plan.assumed_host:
        yield say(plan.assumed_host)
    yield f"{plan.recipe}{where.format(plan.boxed or plan.folder)}"
    if plan.reason:
        yield row(label("chosen"), say(plan.reason))
    for fact in plan.satisfied:
        yield row(label("already so"), say(fact))
    for number, step in enumerate(plan.steps, 1):
        size = say(", about {}").format(mib(step.size_mib)) if step.size_mib else ""
        changes = f"{say(step.changes)}{size}{_long(step)}"
        yield row(say("step {}").format(number), say(step.title))
        yield f"{MARGIN}{say('why: {}; changes: {}').format(say(step.why), changes)}"
        yield f"{MARGIN}{say('root: {}; undo: {}').format(_root(step), say(step.undo))}"
        yield from (MARGIN + line for line in step.lines(columns and columns - 15))
    for hand in plan.by_hand:
        whose = say(" (by root)") if hand.root else ""
        yield row(label("by hand"), f"{label(hand.name)}{whose}{say(': ')}{say(hand.why)}")
        yield from (f"{MARGIN}$ {command}" for command in hand.commands)
    yield from (row(label("not asked"), say(what)) for what in plan.left_out)
    yield from (row(label("mind"), say(what)) for what in plan.mind)
    for obstacle in plan.obstacles:
        yield row(label("in the way"), say(obstacle.why))
        yield f"{MARGIN}{say('next: ')}{say(obstacle.remedy)}"
    if not plan.obstacles and not plan.steps and not plan.by_hand:
        yield f"  {say('nothing to do')}"


def as_values(plan: Plan, result: str, performed: tuple[tuple[str, str], ...] = (), code: int = 0) -> dict[str, Any]:
    """The document of --json; `result` is ready, planned, done, declined, by-hand, removed, absent or failed."""
    return {
        "schema": SCHEMA_VERSION,
        "verb": "provision",
        "result": result,
        **outcome(code, *_what_is_left(plan)),
        "recipe": plan.recipe,
        "folder": str(plan.folder),
        "boxed": plan.boxed,
        "job": plan.job,
        "assumed_host": plan.assumed_host,
        "reason": plan.reason,
        "satisfied": list(plan.satisfied),
        "steps": [_step_values(step) for step in plan.steps],
        "by_hand": [asdict(hand) for hand in plan.by_hand],
        "left_out": list(plan.left_out),
        "mind": list(plan.mind),
        "obstacle": asdict(plan.obstacle) if plan.obstacle else None,
        "obstacles": [asdict(obstacle) for obstacle in plan.obstacles],
        "performed": [{"step": step, "did": did} for step, did in performed],
    }


def _what_is_left(plan: Plan) -> tuple[str, str]:
    """Why it is not done: the first obstacle, what a person must do, or that nobody agreed; and the next step."""
    if plan.obstacle:
        return plan.obstacle.why, plan.obstacle.remedy
    hand = next(iter(plan.by_hand), None)
    return (f"{hand.name}: {hand.why}", next(iter(hand.commands), "")) if hand else ("nothing was done", "")


def _step_values(step: Step) -> dict[str, Any]:
    return (
        {key: getattr(step, key) for key in ("name", "title", "why", "changes", "undo", "size_mib")}
        | {"seconds": step.seconds, "root": bool(step.root), "root_why": step.root, "packages": []}
        | step.values()
    )


def unfit_values(err: NoFittingRecipeError) -> dict[str, Any]:
    """The document of --json where no recipe fits this machine: there is no plan."""
    return as_values(Plan("", Path(), ()), "failed") | {
        "recipe": None,
        "folder": None,
        "unfit": [{"recipe": name, "why": why} for name, why in err.unfit],
    }


class Screen:
    """Progress on standard error: a moving line below the plain ones on a terminal, plain lines alone elsewhere."""

    def __init__(self) -> None:
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("", total=None) if self._bar else None
        self._told = ""
        self._layers: dict[str, Any] = {}

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            with unheard():
                self._bar.stop()

    def show(self, event: Event) -> None:
        """Steps and sentences get a line each; a download moves the bar, or is told once."""
        with unheard():
            self._show(event)

    def _show(self, event: Event) -> None:
        if event.kind == "bytes":
            return self._bytes(event)
        if event.kind == "layer":
            return self._layer(event)
        lead = {"begin": "-> ", "end": f"   {say('done: ')}"}.get(event.kind, "   ")
        text = f"{lead}{_short(say(event.text))}"
        if self._bar is None or self._task is None:
            print(text, file=sys.stderr, flush=True)
            return None
        self._bar.start()
        self._bar.console.print(text, markup=False, soft_wrap=True)
        self._bar.reset(self._task, total=None, description="", visible=event.kind != "end")
        return None

    def _bytes(self, event: Event) -> None:
        name = event.text if " " in event.text else event.text.partition("-")[0]
        if self._bar is not None and self._task is not None:
            words = f"{name} {event.done / MIB:.0f} {label('of')} {event.total / MIB:.0f} MiB"
            self._bar.update(self._task, total=event.total, completed=event.done, description=words)
        elif event.text != self._told and event.total > MIB:
            self._told = event.text
            what = name if " " in name else say("downloading {}").format(name)
            print(f"   {what} ({event.total / MIB:.0f} MiB)", file=sys.stderr, flush=True)

    def _layer(self, event: Event) -> None:
        """A line for each layer that is on its way; elsewhere than on a terminal the whole is enough."""
        if self._bar is None:
            return
        name = event.text.partition(" ")[0]
        if name not in self._layers:
            self._layers[name] = self._bar.add_task("", total=event.total)
        over = event.text.endswith(" done")
        words = f"  {event.text} {event.done / MIB:.0f} {label('of')} {event.total / MIB:.0f} MiB"
        self._bar.update(self._layers[name], completed=event.done, description=words, visible=not over)


def _bar() -> Progress | None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True) if console.is_terminal else None


def _short(text: str) -> str:
    return textwrap.shorten(text, 160, placeholder=" ...")

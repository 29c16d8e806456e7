"""How provisioning looks: its plan as text or JSON values, and its progress on standard error."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envcheck.stopping import unheard
from envcheck.units import MIB, mib
from installers.containers import container_telling
from installers.plan import Plan, Step, root
from installers.progress import Event

if TYPE_CHECKING:
    from rich.progress import Progress

SCHEMA = 1


# Seconds of the deeds, on two cores: venv 4, container 1, a proof with 16 cards 60 (all measured); what is fetched
# takes its size at the rate of an office line, and a build what its recipe allows at most.
TAKES_S = {"environment": 4, "container": 1, "clear": 1, "clone": 30, "library": 5, "packages": 20, "proof": 60}
RATE_MIB_S = 10
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


def takes_s(step: Step) -> int:
    """Roughly how long; a build's deadline is the most that it may take."""
    if step.build:
        return step.build.deadline_s
    return TAKES_S.get(step.name, 0) + step.size_mib // RATE_MIB_S


def _long(step: Step) -> str:
    """ "" for what is over in a moment."""
    seconds = takes_s(step)
    if step.build or seconds < 30:
        return ""
    return f", some {max(1, round(seconds / 60))} min" if seconds < 5400 else f", some {seconds / 3600:.0f} h"


def _folded(text: str, columns: int) -> list[str]:
    if len(text) <= columns or text.lstrip().startswith("$ "):
        return [text]
    return textwrap.wrap(
        text, columns, subsequent_indent=MARGIN, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def _lines(plan: Plan, columns: int | None) -> Iterator[str]:
    """A container's lists are cut to fit `columns`."""
    yield f"{plan.recipe} in {f'the container {plan.boxed}' if plan.boxed else plan.folder}"
    for fact in plan.satisfied:
        yield f"  already so   {fact}"
    for number, step in enumerate(plan.steps, 1):
        size = f", about {mib(step.size_mib)}" if step.size_mib else ""
        yield f"  step {number:<8}{step.title}"
        yield f"{MARGIN}why: {step.why}; changes: {step.changes}{size}{_long(step)}"
        yield f"{MARGIN}root: {root(step)}; undo: {step.undo}"
        if step.drawn:
            yield from (MARGIN + line for line in container_telling.lines(step.drawn, columns and columns - 15))
    for hand in plan.by_hand:
        yield f"  by hand      {hand.name}{' (by root)' if hand.root else ''}: {hand.why}"
        yield from (f"{MARGIN}$ {command}" for command in hand.commands)
    yield from (f"  not asked    {what}" for what in plan.left_out)
    yield from (f"  mind         {what}" for what in plan.mind)
    for obstacle in plan.obstacles:
        yield f"  in the way   {obstacle.why}"
        yield f"{MARGIN}next: {obstacle.remedy}"
    if not plan.obstacles and not plan.steps and not plan.by_hand:
        yield "  nothing to do"


def as_values(plan: Plan, result: str, performed: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """The document of --json; `result` is ready, planned, done, declined, by-hand, removed, absent or failed."""
    return {
        "schema": SCHEMA,
        "verb": "provision",
        "result": result,
        "recipe": plan.recipe,
        "folder": str(plan.folder),
        "boxed": plan.boxed,
        "satisfied": list(plan.satisfied),
        "steps": [_step_values(step) for step in plan.steps],
        "by_hand": [asdict(hand) for hand in plan.by_hand],
        "left_out": list(plan.left_out),
        "mind": list(plan.mind),
        "obstacle": asdict(plan.obstacle) if plan.obstacle else None,
        "obstacles": [asdict(obstacle) for obstacle in plan.obstacles],
        "performed": [{"step": step, "did": did} for step, did in performed],
    }


def _step_values(step: Step) -> dict[str, Any]:
    return (
        {key: getattr(step, key) for key in ("name", "title", "why", "changes", "undo", "size_mib")}
        | {"seconds": takes_s(step), "root": bool(step.root), "root_why": step.root}
        | {"packages": [package.name + package.specifier for package in step.packages]}
        | ({"container": container_telling.as_values(step.drawn)} if step.drawn else {})
    )


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
        text = {"begin": "-> {}", "end": "   done: {}"}.get(event.kind, "   {}").format(_short(event.text))
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
            words = f"{name} {event.done / MIB:.0f} of {event.total / MIB:.0f} MiB"
            self._bar.update(self._task, total=event.total, completed=event.done, description=words)
        elif event.text != self._told and event.total > MIB:
            self._told = event.text
            what = name if " " in name else f"downloading {name}"
            print(f"   {what} ({event.total / MIB:.0f} MiB)", file=sys.stderr, flush=True)

    def _layer(self, event: Event) -> None:
        """A line for each layer that is on its way; elsewhere than on a terminal the whole is enough."""
        if self._bar is None:
            return
        name = event.text.partition(" ")[0]
        if name not in self._layers:
            self._layers[name] = self._bar.add_task("", total=event.total)
        over = event.text.endswith(" done")
        words = f"  {event.text} {event.done / MIB:.0f} of {event.total / MIB:.0f} MiB"
        self._bar.update(self._layers[name], completed=event.done, description=words, visible=not over)


def _bar() -> Progress | None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True) if console.is_terminal else None


def _short(text: str) -> str:
    return textwrap.shorten(text, 160, placeholder=" ...")

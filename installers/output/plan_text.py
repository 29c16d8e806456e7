"""Display of provisioning: the plan as text or JSON, and the progress on standard error."""

from __future__ import annotations

import functools
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import outcome_fields
from envcheck.core.language import translate
from envcheck.core.language.width import display_width as wide
from envcheck.core.language.width import wrap_text
from envcheck.core.messages import Message, _, describe, verbatim
from envcheck.core.signals import tolerate_lost_output
from envcheck.core.units import MIB, format_mib
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.select import NoFittingRecipeError
from installers.plan.step import Plan, Step
from installers.state.progress import ProgressEvent

if TYPE_CHECKING:
    from rich.progress import Progress


MARGIN = " " * 15  # in front of the lines that belong to a step
STEP_MARK = "-> "  # in front of the title of a step that starts
PLAIN = verbatim("").template  # of messages that only quote a name
PACKAGE_FILES = (".whl", ".tar.gz", ".zip")


def render_plan(plan: Plan, width: int | None = None, whole: bool = False) -> str:
    """Return the plan as text: satisfied requirements, steps with reasons, manual steps, obstacles.

    `width` is that of the terminal by default; commands are never wrapped.  With `whole`, each step has its reason and
    how to undo it, and lists of a container are not shortened.
    """
    return fold_lines(_render_lines(plan, None if whole else _screen_columns(width)), width)


def render_shown_plan(plan: Plan, whole: bool) -> str:
    """Return the plan for the terminal; without `whole` its last line names the option that shows more."""
    text = render_plan(plan, whole=whole)
    if whole or not plan.steps:
        return text
    row = format_row(translate(_("details")), translate(_("reasons and undo commands of all steps: add -v")))
    return f"{text}\n{fold_lines([row])}"


def _screen_columns(width: int | None) -> int:
    return max(50, width or shutil.get_terminal_size((100, 24)).columns)


def fold_lines(lines: Iterable[str], width: int | None = None) -> str:
    """Return the lines wrapped to `width` columns, by default those of the terminal; commands are not wrapped."""
    columns = _screen_columns(width)
    return "\n".join(line for text in lines for line in _fold_line(text, columns))


def _describe_changes(step: Step) -> Message:
    """Return what the step changes, with the disk space and the duration, if it is 30 s or more."""
    parts, seconds = [step.changes], step.duration_s
    if step.size_mib:
        parts.append(_("about {size}", size=format_mib(step.size_mib)))
    if not step.tells_time and seconds >= 30:
        minutes = _("about {minutes} min", minutes=max(1, round(seconds / 60)))
        parts.append(minutes if seconds < 5400 else _("about {hours:.0f} h", hours=seconds / 3600))
    return functools.reduce(lambda first, second: _("{first}, {second}", first=first, second=second), parts)


def _fold_line(text: str, columns: int) -> list[str]:
    if wide(text) <= columns or text.lstrip().startswith("$ "):
        return [text]
    head = next((n for n in range(len(text)) if wide(text[:n]) >= len(MARGIN)), 0)
    start = head if text.startswith("  ") and text[head - 1] == " " else len(text) - len(text.lstrip(" "))
    return wrap_text(text[start:], columns, text[:start], MARGIN)


def format_row(head: str, text: str) -> str:
    """Return a line with `head` in the margin."""
    return f"  {head}{' ' * max(1, len(MARGIN) - 2 - wide(head))}{text}"


def _render_lines(plan: Plan, columns: int | None) -> Iterator[str]:
    """Yield the lines of the plan; with `columns`, in short, and lists of a container shortened to fit them."""
    if plan.assumed_host:
        yield translate(plan.assumed_host)
    yield translate(
        _("{recipe} in container {container}", recipe=plan.recipe, container=plan.container)
        if plan.container
        else _("{recipe} in {folder}", recipe=plan.recipe, folder=plan.folder)
    )
    if plan.reason:
        yield format_row(translate(_("selected")), translate(plan.reason))
    yield from (format_row(translate(_("site")), f"{key} = {value}") for key, value in plan.site.items())
    for fact in plan.satisfied:
        yield format_row(translate(_("ok")), translate(fact))
    for number, step in enumerate(plan.steps, 1):
        yield format_row(translate(_("step {number}", number=number)), translate(step.title))
        yield from (MARGIN + translate(line) for line in _describe_step(step, columns is None))
        yield from (MARGIN + line for line in step.render_lines(columns and columns - 15))
    for hand in plan.manual_steps:
        name, why = translate(hand.name), hand.why
        text = _("{name} (as root): {why}", name=name, why=why) if hand.root else _("{name}: {why}", name=name, why=why)
        yield format_row(translate(_("manual")), translate(text))
        yield from (f"{MARGIN}$ {command}" for command in hand.commands)
    yield from (format_row(translate(_("skipped")), translate(what)) for what in plan.skipped)
    yield from (format_row(translate(_("note")), translate(what)) for what in plan.notes)
    for obstacle in plan.obstacles:
        yield format_row(translate(_("blocked")), translate(obstacle.why))
        yield f"{MARGIN}{translate(_('next: {remedy}', remedy=obstacle.remedy))}"
    if not plan.obstacles and not plan.steps and not plan.manual_steps:
        yield f"  {translate(_('nothing to do'))}"


def _describe_step(step: Step, whole: bool) -> Iterator[Message]:
    """Yield what a step changes and whether it needs root; with `whole`, also why it is needed and how to undo it."""
    changes = _describe_changes(step)
    if whole:
        yield _("reason: {why}; changes: {changes}", why=step.why, changes=changes)
        yield _("root: {root}; undo: {undo}", root=step.root_words, undo=step.undo)
    elif step.root:
        yield _("{changes}; root: {root}", changes=changes, root=step.root_words)
    else:
        yield changes


def build_document(
    plan: Plan, result: str, performed: tuple[tuple[str, str], ...] = (), code: int = 0
) -> dict[str, Any]:
    """Return the document of --json; `result` is ready, planned, done, declined, manual, removed, absent or failed."""
    document = {
        "schema": SCHEMA_VERSION,
        "verb": "provision",
        "result": result,
        **outcome_fields(code, *_what_is_left(plan)),
        "recipe": plan.recipe,
        "folder": str(plan.folder),
        "container": plan.container,
        "job": plan.job,
        "assumed_host": plan.assumed_host,
        "reason": plan.reason,
        "site": dict(plan.site),
        "satisfied": list(plan.satisfied),
        "steps": [_step_values(step) for step in plan.steps],
        "manual_steps": [asdict(hand) for hand in plan.manual_steps],
        "skipped": list(plan.skipped),
        "notes": list(plan.notes),
        "obstacle": asdict(plan.first_obstacle) if plan.first_obstacle else None,
        "obstacles": [asdict(obstacle) for obstacle in plan.obstacles],
        "performed": [{"step": step, "summary": did} for step, did in performed],
    }
    return add_messages(document)


def add_messages(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with `messages`: template and values of its texts, so that a reader can translate them."""
    found = {str(text): describe(text) for text in _list_messages(document)}
    return {**document, "messages": {**document.get("messages", {}), **found}}


def _list_messages(value: Any) -> Iterator[Message]:
    if isinstance(value, Message):
        yield from (value,) if value and value.template != PLAIN else ()
    elif isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _list_messages(inner)


def _what_is_left(plan: Plan) -> tuple[Message, str]:
    """Return why the plan is not done (obstacle, manual step, or declined) and the next step."""
    if plan.first_obstacle:
        return plan.first_obstacle.why, plan.first_obstacle.remedy
    hand = next(iter(plan.manual_steps), None)
    if hand is None:
        return _("no changes made"), ""
    return _("{name}: {why}", name=hand.name, why=hand.why), next(iter(hand.commands), "")


def _step_values(step: Step) -> dict[str, Any]:
    return (
        {key: getattr(step, key) for key in ("name", "title", "why", "changes", "undo", "size_mib")}
        | {"seconds": step.duration_s, "root": bool(step.root), "root_why": step.root, "packages": []}
        | step.json_values()
    )


def unfit_values(err: NoFittingRecipeError) -> dict[str, Any]:
    """Return the document of --json if no recipe fits this machine, so there is no plan."""
    return build_document(Plan("", Path(), ()), "failed") | {
        "recipe": None,
        "folder": None,
        "rejected_recipes": [{"recipe": name, "why": why} for name, why in err.unfit],
    }


class ProgressScreen:
    """Progress on standard error: plain lines, and on a terminal a progress bar below them."""

    def __init__(self) -> None:
        self._bar = _make_bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("", total=None) if self._bar else None
        self._download = ""
        self._layers: dict[str, Any] = {}

    def __enter__(self) -> ProgressScreen:
        return self

    def __exit__(self, *_unused: object) -> None:
        if self._bar:
            with tolerate_lost_output():
                self._bar.stop()

    def show_event(self, event: ProgressEvent) -> None:
        """Print a line for a step or message; a download updates the bar, or is printed once without a terminal."""
        with tolerate_lost_output():
            self._print_event(event)

    def _print_event(self, event: ProgressEvent) -> None:
        if event.kind == "bytes":
            return self._show_bytes(event)
        if event.kind == "layer":
            return self._show_layer(event)
        text = _shorten_text(translate(event.text))
        if event.kind == "end":
            text = translate(_("done: {result}", result=text))
        text = f"{STEP_MARK if event.kind == 'begin' else '   '}{text}"
        if self._bar is None or self._task is None:
            print(text, file=sys.stderr, flush=True)
            return None
        self._bar.start()
        self._bar.console.print(text, markup=False, soft_wrap=True)
        self._bar.reset(self._task, total=None, description="", visible=event.kind != "end")
        return None

    def _show_bytes(self, event: ProgressEvent) -> None:
        activity = event.text
        if activity.template == PLAIN:
            activity = _("downloading {name}", name=_shorten_name(activity))
        if self._bar is not None and self._task is not None:
            words = f"{translate(activity)} {_format_progress(event)}"
            self._bar.update(self._task, total=event.total, completed=event.done, description=words)
        elif event.text != self._download and event.total > MIB:
            self._download = event.text
            text = translate(_("{activity} ({size:.0f} MiB)", activity=activity, size=event.total / MIB))
            print(f"   {text}", file=sys.stderr, flush=True)

    def _show_layer(self, event: ProgressEvent) -> None:
        """Update the bar of a layer; without a terminal only the progress of the whole image is shown."""
        if self._bar is None:
            return
        if event.layer not in self._layers:
            self._layers[event.layer] = self._bar.add_task("", total=event.total)
        words = f"  {translate(event.text)} {_format_progress(event)}"
        task = self._layers[event.layer]
        self._bar.update(task, completed=event.done, description=words, visible=not event.over)


def _format_progress(event: ProgressEvent) -> str:
    """Return the progress of a download in MiB."""
    return translate(_("{done:.0f} of {total:.0f} MiB", done=event.done / MIB, total=event.total / MIB))


def _make_bar() -> Progress | None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True) if console.is_terminal else None


def _shorten_text(text: str) -> str:
    return textwrap.shorten(text, 160, placeholder=" ...")


def _shorten_name(file: str) -> str:
    """Return the name of the package of a wheel or source archive; other names as they are."""
    return file.partition("-")[0] if file.endswith(PACKAGE_FILES) else file

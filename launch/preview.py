"""What would run, for a person and for a program: nothing is looked at or changed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from envcheck.core.language import exact, label, say
from envcheck.core.version import SCHEMA_VERSION
from installers.recipes.catalogue import device_of
from launch.job.choose_job import choose_job, fill_values
from launch.job.command import BLANKS, Placeholder, TrainingCommand, container_rows, folded, lines, render, shell
from launch.job.request import Request
from launch.job.script import script


def sound(request: Request) -> None:
    """UsageError now for what would be refused only where the run starts: on another machine, perhaps hours later."""
    if request.waive or request.because:
        from launch import gates

        gates.waive.asked(request.waive, request.because, gates.GATES)
    if request.no_stop or request.limits:
        from launch.watching import choose_monitor

        choose_monitor.parse_rules(request.no_stop, request.limits)


def preview(request: Request, as_script: bool) -> str:
    """The text of --dry-run: for people, as a script, or with --json as one document that holds both."""
    recipe, job = choose_job(request)
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{recipe.name}"
    run = None if as_script or recipe.image else request.runs.absolute() / name
    made = render(recipe, job, fill_values(request, recipe, run))
    if not request.as_json:
        return script(made) if as_script else as_text(made)
    head = {"schema": SCHEMA_VERSION, "state": "planned", "recipe": recipe.name, "model": recipe.models[0]}
    head |= {"method": job.method, "variant": job.variant, "role": job.role, "device": device_of((recipe, job))}
    return json.dumps({**head, **as_values(made), "script": script(made) if as_script else None}, indent=1) + "\n"


def as_values(command: TrainingCommand) -> dict[str, Any]:
    """The command as a program wants it; `missing` names what is still to be said, by the variable of the script."""
    return {
        "title": command.title,
        "caution": list(command.caution),
        "container": list(command.container),
        "folder": command.workdir,
        "sourced": list(command.scripts),
        "requires": list(command.requires),
        "unset": list(command.unset),
        "environment": dict(command.environment),
        "prepend": dict(command.prepend),
        "missing": {token: _asked(BLANKS[token]) for token in command.missing},
        "files": dict(command.files),
        "command": list(command.argv),
        "outputs": list(command.outputs),
    }


def as_text(command: TrainingCommand) -> str:
    """Everything that would run, for a person: the environment and the full command, nothing left out."""
    return "\n".join(_text_lines(command)) + "\n"


def _asked(blank: Placeholder) -> str:
    return f"{blank.variable}: {blank.meaning}" + (f" (else {blank.default})" if blank.default else "")


def _still(blank: Placeholder) -> str:
    """For a person."""
    otherwise = say(" (else {})").format(blank.default) if blank.default else ""
    return f"{blank.variable}{say(': ')}{say(blank.meaning)}{otherwise}"


def _title(command: TrainingCommand) -> str:
    """A recipe's own words have their Chinese whole, or stay."""
    name, colon, title = command.title.partition(": ")
    return f"{name}{say(colon)}{exact(title)}" if colon else name


def _text_lines(command: TrainingCommand) -> Iterable[str]:
    yield _title(command)
    yield from (f"  {say('note: ')}{say(caution)}" for caution in command.caution)
    for heading, rows in (
        ("container", container_rows(command)),
        ("folder", [shell(command.workdir)] if command.workdir else []),
        ("sourced", command.scripts),
        ("must exist", [shell(path) for path in command.requires]),
        ("unset", textwrap.wrap(" ".join(command.unset), 116, break_long_words=False)),
        ("environment", [f"{name}={shell(text)}" for name, text in command.environment.items()]),
        ("in front of", [f"{name}={shell(text)}" for name, text in command.prepend.items()]),
        ("still to be said", [_still(BLANKS[token]) for token in command.missing]),
    ):
        if rows:
            yield f"{label(heading)}{say(':')}"
            yield from (f"  {row}" for row in rows)
    for path, text in command.files.items():
        yield f"{shell(path)}:"
        yield from (f"  {line}" for line in text.splitlines())
    yield f"{label('command')}{say(':')}"
    yield from (f"  {row}" for row in folded([" ".join(map(shell, row)) for row in lines(command)]))

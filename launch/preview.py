"""What would run, for a person and for a program: the machine is asked, nothing is changed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.language import exact, label, say, width
from envcheck.core.language.findings import localised
from envcheck.core.model import Finding, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import BLANKS, Placeholder, TrainingCommand, container_rows, folded, lines, render_job, shell
from envcheck.job.container import describe_doubt
from envcheck.job.here import collect_facts_here
from envcheck.job.job import Job
from envcheck.job.resolve import resolve
from envcheck.job.script import script
from envcheck.job.values import fill_values
from envcheck.report import safe, screen
from envcheck.report.summary import findings_outcome
from installers.recipes import catalogue
from installers.recipes.docker_cli import HERE
from launch import gates
from launch.run import record
from launch.session import look_only
from launch.targets.request import TrainRequest

SHOWN_LINES = 8  # of what a gate tells as evidence: the checks that failed, the files that are missing
# Gates that `envcheck provision` opens.
PROVISIONED = ("gate.environment", "gate.container", "gate.lock")


def sound(request: TrainRequest) -> None:
    """UsageError now for what would be refused only where the run starts: on another machine, perhaps hours later."""
    if request.waive or request.because:
        from launch import gates

        gates.waive.asked(request.waive, request.because, gates.GATES)
    if request.no_stop or request.limits:
        from launch.watching import choose_monitor

        choose_monitor.parse_rules(request.no_stop, request.limits)


def preview(request: TrainRequest) -> int:
    """--dry-run: whether it would start on this machine and what blocks it, then its container and command.

    Returns the exit code: 1 where this machine has the cards and would not run the job, whatever is provisioned; 3
    where a gate cannot tell."""
    facts = collect_facts_here(request)
    job = resolve(request, catalogue.load_all(request.recipes), facts)
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{job.recipe.name}"
    run = None if job.recipe.image else request.runs.absolute() / name
    made = render_job(job, fill_values(request, job.recipe, run))
    judged = gates.opened(look_only(request, job, facts), ())[1] if job.is_for_this_machine else ()
    found = tuple(finding for finding in judged if finding.status in (Status.FAIL, Status.UNKNOWN))
    if request.as_json:
        click.echo(_document(request, job, made, found, None), nl=False)
    else:
        click.echo("\n".join([*start_lines(job, found), "", as_text(made)]), nl=False)
    return _code(found)


def _code(found: Sequence[Finding]) -> int:
    """Of the gates that are not open."""
    worst = max((finding.status for finding in found if finding.name not in PROVISIONED), default=Status.OK)
    return {Status.FAIL: errors.UNFIT, Status.UNKNOWN: errors.UNTOLD}.get(worst, errors.FIT)


def preview_script(request: TrainRequest) -> str:
    """--as-script: the text of a script, with --json a document that holds it."""
    job = resolve(request, catalogue.load_all(request.recipes), collect_facts_here(request), folder=HERE)
    made = render_job(job, fill_values(request, job.recipe, None))
    return _document(request, job, made, (), script(made)) if request.as_json else script(made)


def _document(
    request: TrainRequest, job: Job, made: TrainingCommand, found: Sequence[Finding], text: str | None
) -> str:
    head = {"schema": SCHEMA_VERSION, "state": "planned", "recipe": job.recipe.name, "model": job.recipe.models[0]}
    head |= {"method": job.method.method, "variant": job.method.variant, "role": job.method.role, "device": job.device}
    head |= {
        "job": job.as_json(),
        "closed": record.findings(gates.closed(found)),
        **findings_outcome(found, _code(found)),
    }
    return json.dumps({**head, **as_values(made), "script": text}, indent=1) + "\n"


def start_lines(job: Job, found: Sequence[Finding]) -> Iterator[str]:
    """Whether it would start on this machine, and the gates that are closed or cannot tell."""
    code = _code(found)
    if not job.is_for_this_machine:
        yield from _wrapped(say(f"envcheck train would not start here: {job.assumed_host}."), "", "  ")
    elif not found:
        yield say("envcheck train would start here: every gate is open.")
    elif code == errors.FIT:
        yield say("envcheck train would start here once it is provisioned:")
    elif code == errors.UNTOLD:
        yield say("envcheck cannot determine whether train would start here:")
    else:
        yield say("envcheck train would not start here:")
    for finding in localised(found):
        yield from _wrapped(f"{finding.name}: {finding.seen}", "  ", "    ")
        for line in finding.evidence[:SHOWN_LINES]:
            yield from _wrapped(line, "    | ", "      ")
        if finding.remedy:
            yield from _wrapped(f"{say('next: ')}{finding.remedy.words}", "    ", "      ")
            yield from (f"      $ {command}" for command in finding.remedy.commands[:1])  # never wrapped: for pasting
    if doubt := describe_doubt(job.container, job.recipe.name):
        yield from _wrapped(f"{say('note: ')}{say(doubt)}", "", "  ")


def _wrapped(words: str, first: str, later: str) -> list[str]:
    return width.wrap(safe(words), max(20, screen.style().width - 1), first, later)


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

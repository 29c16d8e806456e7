"""`envcheck train --dry-run` and `--as-script`: show the command and whether it would start; nothing is changed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.language import translate, width
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import (
    BLANKS,
    Placeholder,
    TrainingCommand,
    container_rows,
    fold_lines,
    format_lines,
    render_job,
    shell_quote,
)
from envcheck.job.command_values import fill_values
from envcheck.job.container_privileges import describe_doubt
from envcheck.job.definition import Job
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.own_job_text import render_own_job
from envcheck.job.shell_script import render_script
from envcheck.report import safe, screen
from envcheck.report.summary import describe_outcome
from installers.recipes import catalogue
from installers.recipes.docker_cli import HERE
from launch import gates, restart_run, resume_run
from launch.dry_run_notes import DryRunNotes, collect_notes, render_notes
from launch.local_run import collect_context_only
from launch.own_job_facts import resolve_job
from launch.run import record
from launch.targets.train_request import TrainRequest

SHOWN_LINES = 8  # lines of evidence per gate
# Gates that pass after `envcheck provision`.
PROVISIONED = ("gate.environment", "gate.container", "gate.lock")


def check_early(request: TrainRequest) -> None:
    """Raise UsageError now for options that are otherwise checked at the start, perhaps hours later on another host."""
    if request.waive or request.because:
        from launch import gates

        gates.waive.parse_waivers(request.waive, request.because, gates.GATES)
    if request.no_stop or request.limits or request.stop:
        from launch.watching import choose_monitor

        choose_monitor.parse_rules(request.no_stop, request.limits, request.stop)


def preview_run(request: TrainRequest) -> int:
    """Print for --dry-run whether the job would start on this machine, what prevents it, its container and command.

    Returns the exit code: 1 if this machine is the target and a gate fails that provision does not fix, 3 if a gate is
    unknown.
    """
    facts = collect_facts_here(request)
    recipes = catalogue.load_all(request.recipes)
    request = resume_run.add_resume_option(request, recipes, facts)
    job = resolve_job(request, recipes, facts)
    restart_run.refuse_several_nodes(request, job)
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{job.recipe.name}"
    run = None if job.recipe.image else request.runs.absolute() / name
    made = render_job(job, fill_values(request, job.recipe, run))
    judged = gates.apply_waivers(collect_context_only(request, job, facts), ())[1] if job.is_for_this_machine else ()
    found = tuple(finding for finding in judged if finding.status in (Status.FAIL, Status.UNKNOWN))
    notes = collect_notes(request, job, facts)
    if request.as_json:
        click.echo(_render_document(request, job, made, found, None, notes), nl=False)
    else:
        own = [*render_own_job(job.own), ""] if job.own else []
        about = [line for indent, text in render_notes(notes) for line in _wrap_text(text, indent, f"{indent}    ")]
        start = [*own, *start_lines(job, found, request.fail_on_unknown), "", *about, *([""] if about else [])]
        click.echo("\n".join([*start, as_text(made)]), nl=False)
    return _exit_code(found)


def _exit_code(found: Sequence[Finding]) -> int:
    """Return the exit code for the failed and unknown gates."""
    worst = max((finding.status for finding in found if finding.name not in PROVISIONED), default=Status.OK)
    return {Status.FAIL: errors.CHECK_FAILED, Status.UNKNOWN: errors.UNDETERMINED}.get(worst, errors.SUCCESS)


def preview_script(request: TrainRequest) -> str:
    """Return the job as a shell script for --as-script; with --json a document that contains it."""
    recipes, facts = catalogue.load_all(request.recipes), collect_facts_here(request)
    request = resume_run.add_resume_option(request, recipes, facts)
    job = resolve_job(request, recipes, facts, folder=HERE)
    made = render_job(job, fill_values(request, job.recipe, None))
    if not request.as_json:
        return render_script(made)
    return _render_document(request, job, made, (), render_script(made), collect_notes(request, job, facts))


def _render_document(
    request: TrainRequest,
    job: Job,
    made: TrainingCommand,
    found: Sequence[Finding],
    text: str | None,
    notes: DryRunNotes,
) -> str:
    head = {"schema": SCHEMA_VERSION, "state": "planned", "recipe": job.recipe.name, "model": job.recipe.models[0]}
    head |= {"method": job.method.method, "variant": job.method.variant, "role": job.method.role, "device": job.device}
    head |= {
        "job": job.as_json(),
        "failed_checks": record.list_findings(gates.select_closed(found)),
        **describe_outcome(found, _exit_code(found)),
    }
    return json.dumps({**head, **as_values(made), **notes.as_json(), "script": text}, indent=1) + "\n"


def start_lines(job: Job, found: Sequence[Finding], fail_on_unknown: bool = False) -> Iterator[str]:
    """Yield lines that state whether the job would start here, and the failed and unknown gates."""
    code = _exit_code(found)
    if not job.is_for_this_machine:
        yield from _wrap_text(
            translate(_("`envcheck train` would not start the training here: {reason}.", reason=job.assumed_host)),
            "",
            "  ",
        )
    elif not found:
        yield translate(_("`envcheck train` would start the training here: all preflight checks passed."))
    elif code == errors.SUCCESS:
        yield translate(_("`envcheck train` would start the training here after these fixes:"))
    elif code == errors.UNDETERMINED and not fail_on_unknown:
        words = _("`envcheck train` would start the training here, with these checks unknown (see --fail-on-unknown):")
        yield from _wrap_text(translate(words), "", "  ")
    else:
        yield translate(_("`envcheck train` would not start the training here:"))
    for finding in localize_findings(found):
        yield from _wrap_text(translate(_("{name}: {seen}", name=finding.name, seen=finding.seen)), "  ", "    ")
        for line in finding.evidence[:SHOWN_LINES]:
            yield from _wrap_text(translate(line), "    | ", "      ")
        if finding.remedy:
            yield from _wrap_text(f"{translate(finding.remedy.label)}{finding.remedy.words}", "    ", "      ")
            yield from (
                f"      $ {command}" for command in finding.remedy.commands[:1]
            )  # not wrapped, for copy and paste
    if doubt := describe_doubt(job.container, job.recipe.name):
        yield from _wrap_text(f"{translate(_('note: '))}{translate(doubt)}", "", "  ")


def _wrap_text(words: str, first: str, later: str) -> list[str]:
    return width.wrap_text(safe(words), max(20, screen.detect_style().width - 1), first, later)


def as_values(command: TrainingCommand) -> dict[str, Any]:
    """Return the command as JSON values; `missing` maps unfilled placeholders to the script's variables."""
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
        "missing": {token: _describe_placeholder(BLANKS[token]) for token in command.missing},
        "files": dict(command.files),
        "command": list(command.argv),
        "outputs": list(command.outputs),
    }


def as_text(command: TrainingCommand) -> str:
    """Return container, environment and full command as text."""
    return "\n".join(_text_lines(command)) + "\n"


def _describe_placeholder(blank: Placeholder) -> str:
    otherwise = f" (else {blank.default})" if blank.default else ""
    return f"{blank.variable}: {blank.meaning}{otherwise}"


def _format_placeholder(blank: Placeholder) -> str:
    """Return the placeholder as translated text."""
    otherwise = translate(_(" (default: {default})", default=blank.default)) if blank.default else ""
    return f"{blank.variable}{translate(_(': '))}{translate(blank.meaning)}{otherwise}"


def _format_title(command: TrainingCommand) -> str:
    """Return the title; the part after the recipe and the method is translated."""
    names, colon, title = command.title.partition(": ")
    name = translate(join(", ", names.split(", ")))
    return f"{name}{translate(colon)}{translate(title)}" if colon else name


def _text_lines(command: TrainingCommand) -> Iterable[str]:
    yield _format_title(command)
    yield from (f"  {translate(_('note: '))}{translate(caution)}" for caution in command.caution)
    for heading, rows in (
        (_("container"), container_rows(command)),
        (_("folder"), [shell_quote(command.workdir)] if command.workdir else []),
        (_("scripts to source"), command.scripts),
        (_("required files"), [shell_quote(path) for path in command.requires]),
        (_("unset"), textwrap.wrap(" ".join(command.unset), 116, break_long_words=False)),
        (_("environment"), [f"{name}={shell_quote(text)}" for name, text in command.environment.items()]),
        (_("prepended"), [f"{name}={shell_quote(text)}" for name, text in command.prepend.items()]),
        (_("missing"), [_format_placeholder(BLANKS[token]) for token in command.missing]),
    ):
        if rows:
            yield f"{translate(heading)}{translate(_(':'))}"
            yield from (f"  {row}" for row in rows)
    for path, text in command.files.items():
        yield f"{shell_quote(path)}:"
        yield from (f"  {line}" for line in text.splitlines())
    yield f"{translate(_('command'))}{translate(_(':'))}"
    yield from (f"  {row}" for row in fold_lines([" ".join(map(shell_quote, row)) for row in format_lines(command)]))

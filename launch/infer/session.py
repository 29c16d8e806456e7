"""`envcheck infer` from the wish to the exit code: look, walk the gates, talk, record."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from envcheck.core import errors, process
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.model import Finding
from envcheck.core.signals import heard_by, interrupt
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job import command
from envcheck.job.here import collect_facts_here
from envcheck.job.resolve import resolve_offer
from installers.recipes.recipe import RecipeJob
from launch import gates
from launch.gates import context, waive
from launch.gates.context import GateContext
from launch.infer import chat_text as words
from launch.infer import dialogue, door, recording, talks
from launch.infer.chat_options import ChatOptions, ChosenChat, choose
from launch.infer.dialogue import DialogueOutcome
from launch.infer.recording import Begun
from launch.infer.talks import ChatProgram
from launch.rendering import user_options
from launch.rendering.rows import Rows, rows
from launch.run import record, run_text
from launch.run.choose import filled
from launch.runs import known
from launch.session import look
from launch.targets import clean_environment

COLUMNS = 8192  # of the terminal of a question: readline breaks a line that is longer


def infer(wish: ChatOptions) -> int:
    """Through the gates and to the end of the talk; the exit code."""
    try:
        return _infer(wish)
    except EnvcheckError as err:
        err.document = record.unstarted(err.code)
        raise


def _infer(wish: ChatOptions) -> int:
    if wish.request.as_json and wish.ask is None:
        raise UsageError("--json wants a question", 'add --ask "..."')
    chosen = choose(wish)
    chosen = chosen if wish.ask is None else replace(chosen, job=asking(chosen.job))
    request, runs = chosen.request, chosen.request.runs.expanduser().absolute()
    waivers = waive.asked(request.waive, request.because, gates.GATES)
    with context.folder_lock(runs) as (runs_error, holder):
        facts = collect_facts_here(request)
        job = resolve_offer(request, (chosen.recipe, chosen.job), facts, str(Path.cwd()))
        seen = look(request, job, facts, runs, runs_error, holder)
        _same_place(chosen, seen)
        seen = beside_its_server(seen)
        talk, question = _talk(wish, seen)
        seen, found, waived = gates.opened(seen, waivers)
        if gates.closed(found):
            return _refuse(wish, seen, found)
        run_text.doubts(found)
        return _run(wish, chosen, seen, found, waived, talk, question)


def asking(job: RecipeJob) -> RecipeJob:
    """The job with what makes its program ask: a question needs somebody who waits for it."""
    talk = talks.of((*job.launcher, *job.arguments), {})
    said = rows(job.arguments)
    wanted: Rows = {name: (value,) for name, value in (talk.options if talk else {}).items() if name in said}
    return user_options.applied(job, wanted) if wanted else job


def _same_place(chosen: ChosenChat, seen: GateContext) -> None:
    """The weights of a run lie where it ran."""
    if chosen.container is None or chosen.container == seen.stage.container:
        return
    was = f"the container {chosen.container[:100]}" if chosen.container else "this host"
    raise UsageError(
        f"the run {chosen.of} was in {was}, and its recipe now means {seen.stage.title}",
        "say --into VENV as you did with train, or name the weights: --model NAME --adapter DIR",
    )


def beside_its_server(seen: GateContext) -> GateContext:
    """A program that asks a server of ours is not alone, and is not meant to be."""
    talk = talks.of(seen.command.argv, seen.sight.packages)
    return replace(seen, holder=None) if talk and talk.served else seen


def _talk(wish: ChatOptions, seen: GateContext) -> tuple[ChatProgram | None, str]:
    if wish.ask is None:
        return None, ""
    talk = talks.of(seen.command.argv, seen.sight.packages)
    if talk is None:
        raise UsageError(
            f"nobody told envcheck how {' '.join(seen.command.launcher[:2])[:80]} asks and answers",
            "leave --ask out and type the question yourself",
        )
    return talk, talks.question(wish.ask, talk)


def _refuse(wish: ChatOptions, seen: GateContext, found: tuple[Finding, ...]) -> int:
    if wish.request.as_json:
        _say({**record.refused(seen, found), **recording.head(seen)})
    run_text.closed(gates.closed(found))
    return errors.UNFIT


def _say(said: record.Record) -> None:
    click.echo(record.as_text({"schema": SCHEMA_VERSION, **said}), nl=False)


def _run(
    wish: ChatOptions,
    chosen: ChosenChat,
    seen: GateContext,
    found: tuple[Finding, ...],
    waived: tuple[str, ...],
    talk: ChatProgram | None,
    question: str,
) -> int:
    run = recording.new_folder(seen)
    known.remember(seen.runs)
    made = command.render(seen.recipe, seen.job, filled(chosen.request, seen.recipe, seen.stage, run))
    tidy = clean_environment.clean(seen.sight.environment, made, seen.device, seen.stage.mark(run))
    context.sign(seen.runs)
    begun = Begun(chosen, seen, made, tidy, run, talk, question)
    said = {**recording.begin(begun), "gates": record.findings(found), "waived": list(waived)}
    record.keep(run, said)
    run_text.start(run, made)
    return _finish(wish, run, said, *_talked(begun, wish.deadline_s))


def _talked(begun: Begun, deadline_s: float) -> tuple[str, int | None, DialogueOutcome | None, str]:
    """(state, the program's status, what came of the question, why there was none)."""
    kind = "dumb" if begun.talk else os.environ.get("TERM", "dumb")
    try:
        with door.opened(begun.seen.stage, begun.made, begun.tidy, begun.run, kind) as way:
            if begun.talk is None:
                status = process.foreground(way.argv, env=way.environment, cwd=way.folder)
                return _state(status), status, None, ""
            outcome = _asked(begun.talk, begun.question, way, deadline_s)
    except (StepError, OSError) as err:
        why = err.message if isinstance(err, StepError) else f"cannot start it: {err.strerror or err}"
        return "unstarted", None, None, why
    except KeyboardInterrupt:
        return "interrupted", None, None, ""
    return "finished" if outcome.how == "answered" else "failed", outcome.status, outcome, ""


def _asked(talk: ChatProgram, question: str, way: door.ChatProcess, deadline_s: float) -> DialogueOutcome:
    opened = process.converse(way.argv, env=way.environment, cwd=way.folder, columns=COLUMNS)
    with heard_by(interrupt), opened as terminal:
        return dialogue.ask(terminal, talk, question, deadline_s)


def _state(status: int) -> str:
    """Of a program that a person talked with; Ctrl-C is one of the ways to leave."""
    return {0: "finished", errors.INTERRUPTED: "interrupted"}.get(status, "failed")


def _finish(
    wish: ChatOptions,
    run: Path,
    said: record.Record,
    state: str,
    status: int | None,
    outcome: DialogueOutcome | None,
    why: str,
) -> int:
    done = recording.end(run, said, wish.ask or "", state, status, outcome, why)
    if wish.request.as_json:
        click.echo(record.as_text(done), nl=False)
    elif outcome and outcome.how == "answered":
        click.echo(outcome.answer)
    sys.stdout.flush()
    words.end(run, state, status, outcome, why)
    return recording.CODES[state]

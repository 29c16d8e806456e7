"""`envcheck infer`: collect facts, run the preflight checks, start the chat program, write the record."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from envcheck.core import errors, process
from envcheck.core.errors import EnvcheckError, StepError, UsageError, describe_os_error
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.model import Finding
from envcheck.core.signals import handle_signals, raise_interrupt
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job import command
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.resolve import resolve_offer
from installers.recipes.recipe import RecipeJob
from launch import gates
from launch.gates import context, waive
from launch.gates.context import GateContext
from launch.infer import chat_process, chat_programs, chat_record, chat_text, dialogue
from launch.infer.chat_options import ChatOptions, ChosenChat, choose_chat
from launch.infer.chat_programs import ChatProgram
from launch.infer.chat_record import ChatStart
from launch.infer.dialogue import DialogueOutcome
from launch.local_run import collect_context
from launch.rendering import user_options
from launch.rendering.argument_rows import Rows, parse_rows
from launch.run import record, run_text, states
from launch.run.stage_choice import fill_command_values
from launch.runs import run_index
from launch.targets import clean_environment

COLUMNS = 8192  # terminal width for --ask: readline wraps longer lines


def run_chat(options: ChatOptions) -> int:
    """Check, chat and record; return the exit code."""
    try:
        return _check_and_run(options)
    except EnvcheckError as err:
        err.document = record.build_unstarted_record(err.code)
        raise


def _check_and_run(options: ChatOptions) -> int:
    if options.request.as_json and options.ask is None:
        raise UsageError(_("--json requires --ask"), _('add --ask "QUESTION"'))
    chosen = choose_chat(options)
    chosen = chosen if options.ask is None else replace(chosen, job=add_question_options(chosen.job))
    request, runs = chosen.request, chosen.request.runs.expanduser().absolute()
    waivers = waive.parse_waivers(request.waive, request.because, gates.GATES)
    with context.folder_lock(runs) as (runs_error, holder):
        facts = collect_facts_here(request)
        job = resolve_offer(request, (chosen.recipe, chosen.job), facts, str(Path.cwd()))
        seen = collect_context(request, job, facts, runs, runs_error, holder)
        _check_same_place(chosen, seen)
        seen = ignore_own_server(seen)
        program, question = _choose_program(options, seen)
        seen, found, waived = gates.apply_waivers(seen, waivers)
        if gates.select_closed(found):
            return _report_refusal(options, seen, found)
        run_text.print_doubts(found)
        return _start_chat(options, chosen, seen, found, waived, program, question)


def add_question_options(job: RecipeJob) -> RecipeJob:
    """Return the job with the options that make its program prompt for questions."""
    program = chat_programs.find_program((*job.launcher, *job.arguments), {})
    said = parse_rows(job.arguments)
    wanted: Rows = {name: (value,) for name, value in (program.options if program else {}).items() if name in said}
    return user_options.apply_options(job, wanted) if wanted else job


def _check_same_place(chosen: ChosenChat, seen: GateContext) -> None:
    """Raise UsageError if the weights of the run are not accessible in the environment of this chat."""
    if chosen.container is None or chosen.container == seen.stage.container:
        return
    was = _("container {container}", container=chosen.container[:100]) if chosen.container else _("this host")
    raise UsageError(
        _("run {id} used {was}, but its recipe now uses {title}", id=chosen.run_id, was=was, title=seen.stage.title),
        _("pass --into VENV as for `envcheck train`, or specify the weights with --model NAME --adapter DIR"),
    )


def ignore_own_server(seen: GateContext) -> GateContext:
    """Return the context without `holder` for a client: the envcheck that runs its server holds the runs folder."""
    program = chat_programs.find_program(seen.command.argv, seen.sight.packages)
    return replace(seen, holder=None, holder_run="") if program and program.served else seen


def _choose_program(options: ChatOptions, seen: GateContext) -> tuple[ChatProgram | None, str]:
    if options.ask is None:
        return None, ""
    program = chat_programs.find_program(seen.command.argv, seen.sight.packages)
    if program is None:
        raise UsageError(
            _("--ask does not support {launcher}", launcher=" ".join(seen.command.launcher[:2])[:80]),
            _("omit --ask and type the question in the chat program"),
        )
    return program, chat_programs.check_question(options.ask, program)


def _report_refusal(options: ChatOptions, seen: GateContext, found: tuple[Finding, ...]) -> int:
    if options.request.as_json:
        _print_record({**record.build_refused_record(seen, found), **chat_record.list_head_values(seen)})
    run_text.print_closed_gates(gates.select_closed(found), is_chat=True)
    return errors.CHECK_FAILED


def _print_record(said: record.Record) -> None:
    click.echo(record.as_text({"schema": SCHEMA_VERSION, **said}), nl=False)


def _start_chat(
    options: ChatOptions,
    chosen: ChosenChat,
    seen: GateContext,
    found: tuple[Finding, ...],
    waived: tuple[str, ...],
    program: ChatProgram | None,
    question: str,
) -> int:
    run = chat_record.create_run_folder(seen)
    run_index.remember_folder(seen.runs)
    made = command.render_command(
        seen.recipe, seen.job, fill_command_values(chosen.request, seen.recipe, seen.stage, run)
    )
    tidy = clean_environment.clean_variables(seen.sight.environment, made, seen.device, seen.stage.run_mark(run))
    context.sign_lock(seen.runs)
    start = ChatStart(chosen, seen, made, tidy, run, program, question)
    said = {**chat_record.build_start_record(start), "gates": record.list_findings(found), "waived": list(waived)}
    record.save_record(run, said)
    run_text.print_start(run, made)
    return _finish_chat(options, run, said, *_hold_chat(start, options.deadline_s))


def _hold_chat(start: ChatStart, deadline_s: float) -> tuple[str, int | None, DialogueOutcome | None, Message]:
    """Return (key of states.ENDS, exit status, result of --ask, reason why the program did not start)."""
    kind = "dumb" if start.program else os.environ.get("TERM", "dumb")
    try:
        with chat_process.open_chat_process(start.seen.stage, start.made, start.tidy, start.run, kind) as child:
            if start.program is None:
                status = process.run_in_foreground(child.argv, env=child.environment, cwd=child.folder)
                return _find_end(status), status, None, NOTHING
            outcome = _ask_in_terminal(start.program, start.question, child, deadline_s)
    except (StepError, OSError) as err:
        why = (
            err.message
            if isinstance(err, StepError)
            else _("cannot start the chat program: {reason}", reason=describe_os_error(err))
        )
        return states.UNSTARTED, None, None, why
    except KeyboardInterrupt:
        return states.BY_USER, None, None, NOTHING
    return states.SUCCEEDED if outcome.how == "answered" else states.FAILED, outcome.status, outcome, NOTHING


def _ask_in_terminal(
    program: ChatProgram, question: str, child: chat_process.ChatProcess, deadline_s: float
) -> DialogueOutcome:
    opened = process.open_terminal(child.argv, env=child.environment, cwd=child.folder, columns=COLUMNS)
    with handle_signals(raise_interrupt), opened as terminal:
        return dialogue.ask_question(terminal, program, question, deadline_s)


def _find_end(status: int) -> str:
    """Return the key of states.ENDS for the exit status of an interactive chat; Ctrl-C is a normal way to leave."""
    return {0: states.SUCCEEDED, errors.INTERRUPTED: states.BY_USER}.get(status, states.FAILED)


def _finish_chat(
    options: ChatOptions,
    run: Path,
    said: record.Record,
    how: str,
    status: int | None,
    outcome: DialogueOutcome | None,
    why: str,
) -> int:
    done = chat_record.write_final_record(run, said, options.ask or "", how, status, outcome, why)
    if options.request.as_json:
        click.echo(record.as_text(done), nl=False)
    elif outcome and outcome.how == "answered":
        click.echo(outcome.answer)
    sys.stdout.flush()
    chat_text.print_end(run, how, status, outcome, why)
    return states.ENDS[how].code

"""`envcheck train` on this node: provision, collect facts, evaluate the gates, run the training, record it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import errors, language
from envcheck.core.errors import EnvcheckError, StepError, UsageError, describe_os_error
from envcheck.core.facts import Facts
from envcheck.core.messages import _
from envcheck.core.model import Finding
from envcheck.job import command
from envcheck.job.choose_cards import describe_choice
from envcheck.job.command_values import interpreter_folder
from envcheck.job.definition import Job
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.placeholders import split_address
from envcheck.job.repeat_options import format_doctor_options, format_job_options
from envcheck.job.resolve import refuse_talk, resolve
from installers.recipes import catalogue
from launch import gates
from launch.gates import context, listing, run_location, stage_question, waive
from launch.gates.context import GateContext
from launch.programs import container_agent
from launch.run import diagnose_failure, launcher, loss_plot, process_tree, record, run_text
from launch.run import this_node as own
from launch.run.launcher import TrainingEnd
from launch.run.stage_choice import choose_stage, fill_command_values
from launch.runs import detach, run_index
from launch.runs.request_note import RequestNote, save_note
from launch.targets import clean_environment
from launch.targets.train_request import TrainRequest, format_repeat_options
from launch.watching import choose_monitor

CODES = {
    "finished": errors.SUCCESS,
    "failed": errors.TRAINING_FAILED,
    "deadline": errors.TRAINING_FAILED,
    "stopped": errors.TRAINING_FAILED,
    "unstarted": errors.STEP_FAILED,
    "interrupted": errors.INTERRUPTED,
}


def train_here(request: TrainRequest) -> int:
    """Check, train and record; return the exit code."""
    try:
        return _check_and_train(request)
    except EnvcheckError as err:
        err.document = record.build_unstarted_record(err.code)
        raise


def _check_and_train(request: TrainRequest) -> int:
    recipes, facts = catalogue.load_all(request.recipes), collect_facts_here(request)
    job = resolve(request, recipes, facts)
    refuse_talk(job.recipe, job.method)
    auto = request.rank is None and job.method.rank is None
    request = own.resolve_node(request, job.method, facts.network)
    if request.data and request.data.expanduser().is_dir():
        raise UsageError(
            _("--data {data} is a folder; a file is required", data=request.data), _("specify a file in that folder")
        )
    choose_monitor.parse_rules(
        request.no_stop, request.limits, request.stop
    )  # reports invalid rules before anything starts
    if request.provision:
        if code := _provision_first(request, job, facts):
            if request.as_json:
                click.echo(record.as_text({**record.build_unstarted_record(code), "recipe": job.recipe.name}), nl=False)
            return code
        facts = collect_facts_here(request)
        job = resolve(request, recipes, facts)
    runs = request.runs.expanduser().absolute()
    waivers = waive.parse_waivers(request.waive, request.because, gates.GATES)
    with context.folder_lock(runs) as (runs_error, holder):
        seen = collect_context(request, job, facts, runs, runs_error, holder)
        if seen.stage.container and (inside := resolve(request, recipes, facts, seen.sight.packages)) != job:
            seen = collect_context(
                request, inside, facts, runs, runs_error, holder
            )  # the container's packages select other options
        seen, found, waived = gates.apply_waivers(seen, waivers)
        if request.gates:
            return _report_gates(request, seen, found, waived)
        if gates.select_closed(found):
            return _report_refusal(request, seen, found)
        if seen.choice:
            run_text.print_translated(describe_choice(seen.choice))
        run_text.print_doubts(found)
        run_text.print_unused_waivers(waivers, waived)
        if seen.job.nodes > 1:
            met = own.gather_nodes(request, seen, auto, run_text.print_translated)
            request, found = replace(request, rank=met.rank), (*found, *met.findings)
            if gates.select_closed(met.findings):
                return _report_refusal(request, seen, found)
            run_text.print_doubts(met.findings)
        return _start_run(request, seen, found, waived)


def _provision_first(request: TrainRequest, job: Job, facts: Facts) -> int:
    """Install what is missing and return the exit code; prints to standard error, standard output is for the run."""
    from installers.provision_run import ProvisionRequest, run_plan

    recipe = job.recipe
    folder, own = interpreter_folder(request, recipe), request.into is not None
    with contextlib.redirect_stdout(sys.stderr):
        return run_plan(
            ProvisionRequest(job, facts, folder, own, False, request.yes, False, gated=recipe.image is None or own)
        )


def collect_context(
    request: TrainRequest,
    resolved: Job,
    facts: Facts,
    runs: Path,
    runs_error: str | None = None,
    holder: str | None = None,
) -> GateContext:
    """Collect the input of the gates; `runs_error` and `holder` are results of `context.folder_lock`."""
    recipe, job, device = resolved.recipe, resolved.method, resolved.device
    facts = replace(facts, vendors=tuple(v for v in facts.vendors if v.name == device), wanted=resolved.wanted)
    boxed = resolved.container.cards if resolved.container else ()
    stage = choose_stage(recipe, job, interpreter_folder(request, recipe), request.into is not None, facts, boxed)
    made = command.render_job(
        resolved, fill_command_values(request, recipe, stage, runs / "run")
    )  # a placeholder: the run folder does not exist yet
    port = context.find_launcher_port(made.argv, made.environment)
    rank = job.rank if request.rank is None else request.rank
    leads = job.nodes == 1 or rank in (0, None)
    sight = stage.collect_facts(
        stage_question.build_stage_question(recipe, job, made, device, facts, runs, port if leads else None)
    )
    lock, lock_error = context.read_lockfile(interpreter_folder(request, recipe), recipe.name)
    master = split_address(request.master or "")[0]
    host = "" if "host" in request.found else split_address(request.host or "")[0]
    seen = GateContext(
        recipe=recipe,
        job=job,
        command=made,
        device=device,
        runs=runs,
        facts=facts,
        stage=stage,
        sight=sight,
        runs_error=runs_error,
        holder=holder or process_tree.find_orphan(runs) or run_location.find_container_run(sight),
        port=port,
        port_error=None if port is None else sight.ports.get(port),
        stale=clean_environment.list_stale_variables(sight.environment, made, device),
        options=format_job_options(request, recipe, job),
        doctor_options=format_doctor_options(recipe, job, request.recipes),
        more=format_repeat_options(request),
        lock=lock,
        lock_error=lock_error,
        master=master,
        leads=leads,
        own_master=own.owns_address(master, facts.network) if master and job.nodes > 1 else None,
        host=host,
        own_host=own.owns_address(host, facts.network) if host else None,
        rank=rank,
        choice=resolved.choice,
    )
    return gates.job_requirements.judge_machine(gates.job_requirements.add_requirements(seen))


def collect_context_only(request: TrainRequest, job: Job, facts: Facts) -> GateContext:
    """Like `collect_context`, but without locking or creating the runs folder."""
    return collect_context(request, job, facts, request.runs.expanduser().absolute())


def _report_gates(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...], waived: tuple[str, ...]) -> int:
    """Print all gates for --gates; return doctor's exit code: 1 for failures, 3 for unknown results."""
    from envcheck import report
    from envcheck.report import screen

    code = report.exit_code(found)
    if request.as_json:
        state = "refused" if gates.select_closed(found) else "ready"
        said = {"state": state, "exit": {"code": code, "status": None}, "waived": list(waived)}
        said |= report.summary.describe_outcome(found, code)
        click.echo(
            record.as_text({**record.list_head_values(seen), **said, "gates": record.list_findings(found)}), nl=False
        )
    else:
        click.echo(listing.render_gates(found, screen.detect_style()), nl=False)
    return code


def _report_refusal(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...]) -> int:
    """Print the failed gates; no run folder is created."""
    if request.as_json:
        click.echo(record.as_text(record.build_refused_record(seen, found)), nl=False)
    run_text.print_closed_gates(gates.select_closed(found))
    return errors.CHECK_FAILED


def _start_run(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...], waived: tuple[str, ...]) -> int:
    run = _new_folder(seen, datetime.now(timezone.utc))
    run_index.remember_folder(seen.runs)
    save_note(run, RequestNote(request.into, request.recipes))
    if not request.detach:
        return _supervise_run(request, seen, found, waived, run, lambda: None)
    code = detach.run_detached(run, lambda begun: _supervise_run(request, seen, found, waived, run, begun))
    run_text.print_detached(run, code)
    if request.as_json:
        click.echo((run / record.NAME).read_text("utf-8"), nl=False)
    return errors.SUCCESS if code is None else code


def _supervise_run(
    request: TrainRequest,
    seen: GateContext,
    found: tuple[Finding, ...],
    waived: tuple[str, ...],
    run: Path,
    started: Callable[[], None],
) -> int:
    """Run the training to its end and return the exit code; `started` is called when the launcher runs."""
    now = datetime.now(timezone.utc)
    made = command.render_command(seen.recipe, seen.job, fill_command_values(request, seen.recipe, seen.stage, run))
    tidy = clean_environment.clean_variables(seen.sight.environment, made, seen.device, seen.stage.run_mark(run))
    context.sign_lock(seen.runs)
    begun = {
        **record.list_head_values(seen),
        **record.build_start_record(seen, found, run, made, tidy, now),
        "waived": list(waived),
    }
    begun["options"] = RequestNote(request.into, request.recipes).as_values()
    record.save_record(run, begun)
    run_text.print_start(run, made)
    monitor = choose_monitor.build_monitor(request, seen, run)
    teller = choose_monitor.choose_progress_display(request, seen, run, monitor)
    if not request.dashboard:
        monitor.tell = run_text.print_warning
    try:
        end = launcher.launch_training(seen.stage, made, tidy, run, teller, request.deadline_s, started, monitor)
    except StepError as err:
        why = {"exit": {"code": err.code, "status": None}, "error": err.message}
        record.save_record(run, {**begun, "state": "unstarted", **why})
        raise
    except KeyboardInterrupt:  # before the launcher handles signals: no process was started
        record.save_record(run, {**begun, "state": "interrupted", "exit": {"code": errors.INTERRUPTED, "status": None}})
        raise
    finally:
        teller.close()
    begun["warnings"] = record.list_findings(tuple(monitor.warnings.values()))
    for warning in monitor.warnings.values():
        run_text.print_warning(warning, at_end=True)
    return _finish_run(request, run, begun, end)


def _new_folder(seen: GateContext, now: datetime) -> Path:
    try:
        run = record.create_folder(seen.runs, seen.recipe.name, now)
        (run / "output").mkdir()
        (run / "log").mkdir(container_agent.PRIVATE)  # private: launchers write their environment there
    except OSError as err:
        raise EnvcheckError(
            _("{folder}: {reason}", folder=seen.runs, reason=describe_os_error(err)),
            _("choose another folder with --runs"),
        ) from None
    return run


def _finish_run(request: TrainRequest, run: Path, begun: record.Record, end: TrainingEnd) -> int:
    code = CODES[end.how]
    found = diagnose_failure.diagnose_run(run, end, time.time() - end.seconds)
    diagnoses = diagnose_failure.name_own_job(found, begun)
    done = {
        **begun,
        **record.build_end_values(end, code),
        "memory": {**begun["memory"], "measured_bytes": record.measured_peak_bytes(end, begun["device"])},
        "ended": record.format_time(datetime.now(timezone.utc)),
        "checkpoints": list(end.outputs),
        "diagnoses": diagnose_failure.list_diagnosis_values(diagnoses),
    }
    title = _("{recipe}, {method}: loss", recipe=begun["recipe"], method=begun["method"])
    try:
        (run / "loss.svg").write_text(loss_plot.render_svg(end.steps, title), encoding="utf-8")
    except OSError as err:
        click.echo(
            language.translate(_("envcheck: cannot draw the loss curve: {reason}", reason=describe_os_error(err))),
            err=True,
        )
    record.save_record(run, done)
    if request.as_json and not request.detach:
        click.echo(record.as_text(done), nl=False)
    run_text.print_end(run, end, done["checkpoints"], code, diagnoses)
    return code

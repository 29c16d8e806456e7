"""`envcheck train` on this node: provision, collect facts, evaluate the gates, run the training, record it."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, StepError, UsageError, describe_os_error
from envcheck.core.facts import Facts
from envcheck.core.messages import NOTHING, _
from envcheck.core.model import Finding
from envcheck.core.secrets import redact_words
from envcheck.job import command
from envcheck.job.choose_cards import describe_choice
from envcheck.job.command_values import interpreter_folder
from envcheck.job.definition import Job
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.placeholders import split_address
from envcheck.job.repeat_options import format_doctor_options, format_job_options
from envcheck.job.resolve import refuse_talk, resolve
from envcheck.settings.apply_access import use_site
from installers.recipes import catalogue
from installers.recipes.own_recipe import find_own_job
from launch import gates, restart_run, resume_run, run_end, run_report, run_view
from launch.gates import context, listing, run_location, stage_question, waive
from launch.gates.context import GateContext
from launch.own_job_facts import make_output_folder, measure_output_disk, resolve_job
from launch.programs import container_agent
from launch.run import launcher, process_tree, record, run_text, states
from launch.run import this_node as own
from launch.run.stage_choice import choose_stage, fill_command_values
from launch.runs import run_index, supervisor
from launch.runs.request_note import RequestNote, save_note
from launch.targets import clean_environment
from launch.targets.stage import Training
from launch.targets.train_request import TrainRequest, format_repeat_options
from launch.watching import choose_monitor


def train_here(request: TrainRequest) -> int:
    """Check, train and record; return the exit code."""
    try:
        return _check_and_train(request)
    except EnvcheckError as err:
        err.document = record.build_unstarted_record(err.code)
        raise


def _check_and_train(request: TrainRequest) -> int:
    recipes, facts = catalogue.load_all(request.recipes), collect_facts_here(request)
    request = resume_run.add_resume_option(request, recipes, facts)
    job = resolve_job(request, recipes, facts)
    refuse_talk(job.recipe, job.method)
    restart_run.refuse_several_nodes(request, job)
    auto = request.rank is None and job.method.rank is None
    if job.own is None:
        request = own.resolve_node(request, job.method, facts.network)
    else:
        run_text.print_own_job(job.own)
    if request.data and request.data.expanduser().is_dir():
        raise UsageError(
            _("--data {data} is a folder; a file is required", data=request.data), _("specify a file in that folder")
        )
    run_report.check_options(request)
    # reports invalid rules before anything starts
    choose_monitor.parse_rules(request.no_stop, request.limits, request.stop)
    if request.provision and (request.into or not job.recipe.own_environment):
        if code := _provision_first(request, job, facts):
            if request.as_json:
                click.echo(record.as_text({**record.build_unstarted_record(code), "recipe": job.recipe.name}), nl=False)
            return code
        facts = collect_facts_here(request)
        job = resolve_job(request, recipes, facts)
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
        if gates.select_preventing(found, request.fail_on_unknown):
            return _report_refusal(request, seen, found)
        if seen.choice:
            run_text.print_translated(describe_choice(seen.choice))
        run_text.print_doubts(found)
        run_text.print_unused_waivers(waivers, waived)
        if seen.job.nodes > 1 and job.own is None:  # an own job's launcher finds its nodes itself
            met = own.gather_nodes(request, seen, auto, run_text.print_translated)
            request, found = replace(request, rank=met.rank), (*found, *met.findings)
            if gates.select_preventing(met.findings, request.fail_on_unknown):
                return _report_refusal(request, seen, found)
            run_text.print_doubts(met.findings)
        return _start_run(request, seen, found, waived)


def _provision_first(request: TrainRequest, job: Job, facts: Facts) -> int:
    """Install what is missing and return the exit code; prints to standard error, standard output is for the run."""
    from installers.bundle.sources import Supply
    from installers.containers.container_options import ContainerOptions
    from installers.provision_run import ProvisionRequest, run_plan

    recipe, own = job.recipe, request.into is not None
    gated = recipe.image is None or own
    supply, wish = Supply(recipe, boxed=not gated, site=request.site), ContainerOptions(request.site.registries)
    asked = ProvisionRequest(
        *(job, facts, interpreter_folder(request, recipe), own, False, request.yes, False, gated, wish, supply)
    )
    with contextlib.redirect_stdout(sys.stderr), use_site(request.site):
        return run_plan(asked)


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
    if resolved.own and job.nodes > 1:
        port = None  # its own command knows which node opens it
    rank = job.rank if request.rank is None else request.rank
    leads = job.nodes == 1 or rank in (0, None)
    sight = stage.collect_facts(
        stage_question.build_stage_question(
            recipe, job, made, device, facts, runs, port if leads else None, request.resume_path
        )
    )
    if resolved.own and (free_bytes := measure_output_disk(resolved.own)) is not None:
        sight = replace(sight, free_bytes=free_bytes)
    lock, lock_error = (
        (None, NOTHING) if resolved.own else context.read_lockfile(interpreter_folder(request, recipe), recipe.name)
    )
    alive, orphan = _find_living_run(runs)
    holder = holder or alive
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
        holder=holder or run_location.find_container_run(sight),
        holder_run=_find_supervised_run(runs, holder),
        orphan=orphan if holder == alive else "",
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
        checkpoint=request.resume_path,
        choice=resolved.choice,
    )
    return gates.job_requirements.judge_machine(gates.job_requirements.add_requirements(seen))


def _find_living_run(runs: Path) -> tuple[str | None, str]:
    """Return (pid, id) of a run in this folder that still lives; the id is "" unless its supervisor was killed."""
    found = process_tree.find_orphan(runs)
    if found is None:
        return None, ""
    name, pid = found
    run = run_index.read_run(runs / name)
    return (str(run.pid), "") if run and run.pid else (str(pid), name)


def _find_supervised_run(runs: Path, holder: str | None) -> str:
    """Return the id of the run in this folder whose supervisor is the process `holder`, "" without one."""
    found = (run for run in run_index.list_runs(runs) if run.pid and str(run.pid) == holder) if holder else ()
    return next((run.id for run in found), "")


def collect_context_only(request: TrainRequest, job: Job, facts: Facts) -> GateContext:
    """Like `collect_context`, but without locking or creating the runs folder."""
    return collect_context(request, job, facts, request.runs.expanduser().absolute())


def _report_gates(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...], waived: tuple[str, ...]) -> int:
    """Print all gates for --gates; return doctor's exit code: 1 for failures, 3 for unknown results."""
    from envcheck import report
    from envcheck.report import screen

    code = report.exit_code(found)
    if request.as_json:
        state = states.REFUSED if gates.select_closed(found) else states.READY
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
    preventing = gates.select_preventing(found, request.fail_on_unknown)
    code = errors.CHECK_FAILED if gates.select_closed(found) else errors.UNDETERMINED
    if request.as_json:
        click.echo(record.as_text(record.build_refused_record(seen, found, code)), nl=False)
    run_text.print_closed_gates(preventing)
    return code


def _prepare_run(seen: GateContext, request: TrainRequest) -> Path:
    run = _new_folder(seen, datetime.now(timezone.utc))
    run_index.remember_folder(seen.runs)
    save_note(run, RequestNote(request.into, request.recipes, tuple(list_repeat_words(seen)), Path.cwd()))
    return run


def _supervise_with_restarts(
    request: TrainRequest,
    seen: GateContext,
    found: tuple[Finding, ...],
    waived: tuple[str, ...],
    run: Path,
    started: Callable[[], None],
) -> int:
    first = _supervise_run(request, seen, found, waived, run, started)
    return restart_run.run_with_restarts(request, run, first, _restart_run).code


def _restart_run(request: TrainRequest, failed: Path) -> tuple[Path, restart_run.RunOutcome] | None:
    """Check the machine again and run the job once more; None if a gate is closed now."""
    recipes, facts = catalogue.load_all(request.recipes), collect_facts_here(request)
    request = resume_run.add_resume_option(request, recipes, facts)
    job = resolve_job(request, recipes, facts)
    runs = request.runs.expanduser().absolute()
    seen = collect_context(request, job, facts, runs)
    if seen.stage.container and (inside := resolve(request, recipes, facts, seen.sight.packages)) != job:
        seen = collect_context(request, inside, facts, runs)
    seen, found, waived = gates.apply_waivers(seen, waive.parse_waivers(request.waive, request.because, gates.GATES))
    if not gates.select_closed(found) and seen.job.nodes > 1 and job.own is None:
        met = own.gather_nodes(request, seen, False, run_text.print_translated)
        request, found = replace(request, rank=met.rank), (*found, *met.findings)
    if preventing := gates.select_preventing(found, request.fail_on_unknown):
        run_text.print_closed_gates(preventing)
        return None
    run = _prepare_run(seen, request)
    restart_run.note_successor(failed, run)
    return run, _supervise_run(request, seen, found, waived, run, lambda: None)


def _start_run(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...], waived: tuple[str, ...]) -> int:
    run = _prepare_run(seen, request)
    child = supervisor.start_supervisor(
        run, lambda begun: _supervise_with_restarts(request, seen, found, waived, run, begun)
    )
    if not request.detach:
        return run_view.view_run(request, seen, run, child)
    code = child.wait_until_started()
    run_text.print_detached(run, code)
    if request.as_json:
        click.echo((run / record.NAME).read_text("utf-8"), nl=False)
    return errors.SUCCESS if code is None else code


def list_repeat_words(seen: GateContext) -> list[str]:
    """Return the options of train that repeat this run."""
    if (own_job := find_own_job(seen.recipe)) is not None:  # what follows -- belongs to its command
        return [*shlex.split(seen.more), *own_job.words]
    return shlex.split(f"{seen.options} {seen.more}")


def _supervise_run(
    request: TrainRequest,
    seen: GateContext,
    found: tuple[Finding, ...],
    waived: tuple[str, ...],
    run: Path,
    started: Callable[[], None],
) -> restart_run.RunOutcome:
    """Run the training to its end; `started` is called when the launcher runs."""
    now = datetime.now(timezone.utc)
    made = command.render_command(seen.recipe, seen.job, fill_command_values(request, seen.recipe, seen.stage, run))
    tidy = clean_environment.clean_variables(seen.sight.environment, made, seen.device, seen.stage.run_mark(run))
    context.sign_lock(seen.runs)
    begun = {
        **record.list_head_values(seen),
        **record.build_start_record(seen, found, run, made, tidy, now),
        "waived": list(waived),
    }
    begun |= {
        "host": socket.gethostname(),
        "request": list(redact_words(list_repeat_words(seen))),
        "resumed_from": (
            {"run": request.resumed_run, "checkpoint": request.resume_path} if request.resumed_run else None
        ),
        "cards_used": list(choose_monitor.list_card_labels(seen)),
        "watch": {
            "no_stop": list(request.no_stop),
            "limits": list(request.limits),
            "stop": list(request.stop),
            "deadline_s": request.deadline_s,
        },
    }
    begun["options"] = RequestNote(request.into, request.recipes).as_values()
    record.save_record(run, begun)
    run_text.print_start(run, made)
    monitor = choose_monitor.build_monitor(request, seen, run)
    reporter = run_report.build_reporter(request, seen, run)

    def tell(warning: Finding) -> None:
        run_text.print_warning(warning)
        reporter.report_warning(warning)

    monitor.tell = tell

    def note_start(training: Training) -> None:
        begun.update(state=states.RUNNING, launcher=training.describe_processes())
        record.save_record(run, begun)
        reporter.report_start(found)
        started()

    try:
        end = launcher.launch_training(
            seen.stage, made, tidy, run, reporter.report_step, request.deadline_s, note_start, monitor
        )
    except StepError as err:
        why = {"exit": {"code": err.code, "status": None}, **record.list_error_values(err.message)}
        record.save_record(run, {**begun, **states.list_end_values(states.UNSTARTED), **why})
        reporter.report_end(states.UNSTARTED, err.code, err.message)
        raise
    except KeyboardInterrupt:  # before the launcher handles signals: no process was started
        ended = {**states.list_end_values(states.BY_USER), "exit": {"code": errors.INTERRUPTED, "status": None}}
        record.save_record(run, {**begun, **ended})
        reporter.report_end(states.BY_USER, errors.INTERRUPTED)
        raise
    begun["warnings"] = record.list_findings(tuple(monitor.warnings.values()))
    for warning in monitor.warnings.values():
        run_text.print_warning(warning, at_end=True)
    outcome = run_end.finish_run(run, begun, end)
    reporter.report_end(end.how, outcome.code, str(end.stopped.seen) if end.stopped else "")
    return outcome


def _new_folder(seen: GateContext, now: datetime) -> Path:
    try:
        run = record.create_folder(seen.runs, seen.recipe.name, now)
        make_output_folder(run / "output", find_own_job(seen.recipe))
        record.reserve_space(run)
        (run / "log").mkdir(container_agent.PRIVATE)  # private: launchers write their environment there
    except OSError as err:
        raise EnvcheckError(
            _("{folder}: {reason}", folder=seen.runs, reason=describe_os_error(err)),
            _("choose another folder with --runs"),
        ) from None
    return run

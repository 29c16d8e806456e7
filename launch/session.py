"""`envcheck train` from the request to the exit code: provision, look, walk the gates, run, record."""

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
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.model import Finding
from envcheck.job import command
from envcheck.job.here import collect_facts_here
from envcheck.job.job import Job
from envcheck.job.placeholders import split_address
from envcheck.job.repeat_options import format_doctor_options, format_job_options
from envcheck.job.resolve import refuse_talk, resolve
from envcheck.job.values import interpreter_folder
from installers.recipes import catalogue
from launch import gates
from launch.gates import asking, context, listing, waive
from launch.gates.context import GateContext
from launch.programs import container_agent
from launch.run import diagnose_failure, launcher, loss_plot, process_tree, record, run_text
from launch.run import this_node as own
from launch.run.choose import choose as choose_stage
from launch.run.choose import filled
from launch.run.launcher import Ending
from launch.runs import detach, known
from launch.runs.request_note import RequestNote, remember
from launch.targets import clean_environment
from launch.targets.request import TrainRequest, format_repeat_options
from launch.targets.stage import StageFacts
from launch.watching import choose_monitor

CODES = {
    "finished": errors.FIT,
    "failed": errors.TRAINING_FAILED,
    "deadline": errors.TRAINING_FAILED,
    "stopped": errors.TRAINING_FAILED,
    "unstarted": errors.STEP_FAILED,
    "interrupted": errors.INTERRUPTED,
}


def train(request: TrainRequest) -> int:
    """Through the gates and to the end; the exit code."""
    try:
        return _train(request)
    except EnvcheckError as err:
        err.document = record.unstarted(err.code)
        raise


def _train(request: TrainRequest) -> int:
    recipes, facts = catalogue.load_all(request.recipes), collect_facts_here(request)
    job = resolve(request, recipes, facts)
    refuse_talk(job.recipe, job.method)
    auto = request.rank is None and job.method.rank is None
    request = own.settled(request, job.method)
    if request.data and request.data.expanduser().is_dir():
        raise UsageError(f"--data {request.data}: a folder, and a file is wanted", "name the file in it")
    choose_monitor.parse_rules(request.no_stop, request.limits)  # what is no rule is said before anything starts
    if request.provision:
        if code := _provision(request, job, facts):
            if request.as_json:
                click.echo(record.as_text({**record.unstarted(code), "recipe": job.recipe.name}), nl=False)
            return code
        facts = collect_facts_here(request)
        job = resolve(request, recipes, facts)
    runs = request.runs.expanduser().absolute()
    waivers = waive.asked(request.waive, request.because, gates.GATES)
    with context.folder_lock(runs) as (runs_error, holder):
        seen = look(request, job, facts, runs, runs_error, holder)
        if seen.stage.container and (inside := resolve(request, recipes, facts, seen.sight.packages)) != job:
            seen = look(request, inside, facts, runs, runs_error, holder)  # what the container holds speaks otherwise
        seen, found, waived = gates.opened(seen, waivers)
        if request.gates:
            return _told(request, seen, found, waived)
        if gates.closed(found):
            return _refuse(request, seen, found)
        run_text.doubts(found)
        run_text.in_vain(waivers, waived)
        if seen.job.nodes > 1:
            met = own.gather(request, seen, auto, run_text.spoken_aside)
            request, found = replace(request, rank=met.rank), (*found, *met.findings)
            if gates.closed(met.findings):
                return _refuse(request, seen, found)
            run_text.doubts(met.findings)
        return _run(request, seen, found, waived)


def _provision(request: TrainRequest, job: Job, facts: Facts) -> int:
    """Install what is missing, told on standard error: standard output belongs to the run."""
    from installers.session import ProvisionRequest, run_plan

    recipe = job.recipe
    folder, own = interpreter_folder(request, recipe), request.into is not None
    with contextlib.redirect_stdout(sys.stderr):
        return run_plan(
            ProvisionRequest(job, facts, folder, own, False, request.yes, False, gated=recipe.image is None or own)
        )


def look(
    request: TrainRequest,
    resolved: Job,
    facts: Facts,
    runs: Path,
    runs_error: str | None = None,
    holder: str | None = None,
) -> GateContext:
    """Everything that the gates judge."""
    recipe, job, device = resolved.recipe, resolved.method, resolved.device
    told = replace(facts, vendors=tuple(v for v in facts.vendors if v.name == device), wanted=resolved.wanted)
    stage = choose_stage(recipe, job, interpreter_folder(request, recipe), request.into is not None, told)
    made = command.render_job(resolved, filled(request, recipe, stage, runs / "run"))  # there is no run yet to name
    port = context.port_of(made.argv, made.environment)
    rank = job.rank if request.rank is None else request.rank
    leads = job.nodes == 1 or rank in (0, None)
    sight = stage.look(asking.asked(recipe, job, made, device, told, runs, port if leads else None))
    lock, lock_error = context.locked(interpreter_folder(request, recipe), recipe.name)
    master = split_address(request.master or "")[0]
    host = "" if "host" in request.found else split_address(request.host or "")[0]
    seen = GateContext(
        recipe=recipe,
        job=job,
        command=made,
        device=device,
        runs=runs,
        facts=told,
        stage=stage,
        sight=sight,
        runs_error=runs_error,
        holder=holder or process_tree.find_orphan(runs) or _inside(sight),
        port=port,
        port_error=None if port is None else sight.ports.get(port),
        stale=clean_environment.stale(sight.environment, made, device),
        options=format_job_options(request, recipe, job),
        doctor_options=format_doctor_options(recipe, job, request.recipes),
        more=format_repeat_options(request),
        lock=lock,
        lock_error=lock_error,
        master=master,
        leads=leads,
        own_master=own.owns(master) if master and job.nodes > 1 else None,
        host=host,
        own_host=own.owns(host) if host else None,
        rank=rank,
    )
    return gates.job_requirements.judge_machine(gates.job_requirements.require(seen))


def look_only(request: TrainRequest, job: Job, facts: Facts) -> GateContext:
    """As `look`, where nothing is to be made, not even the folder of runs."""
    return look(request, job, facts, request.runs.expanduser().absolute())


def _inside(sight: StageFacts) -> str | None:
    """Who trains in the container already, by envcheck; its processes are no processes of this host."""
    return next((f"{pid} (in the container, run {run})" for pid, run in sight.marks.items()), None)


def _told(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...], waived: tuple[str, ...]) -> int:
    """--gates: all of them, and nothing is started; as doctor, 3 where nothing is closed and something is not told."""
    from envcheck import report
    from envcheck.report import screen

    code = report.exit_code(found)
    if request.as_json:
        state = "refused" if gates.closed(found) else "ready"
        said = {"state": state, "exit": {"code": code, "status": None}, "waived": list(waived)}
        said |= report.summary.findings_outcome(found, code)
        click.echo(record.as_text({**record.head(seen), **said, "gates": record.findings(found)}), nl=False)
    else:
        click.echo(listing.text(found, screen.style()), nl=False)
    return code


def _refuse(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...]) -> int:
    """Nothing was started, and no folder made."""
    if request.as_json:
        click.echo(record.as_text(record.refused(seen, found)), nl=False)
    run_text.closed(gates.closed(found))
    return errors.UNFIT


def _run(request: TrainRequest, seen: GateContext, found: tuple[Finding, ...], waived: tuple[str, ...]) -> int:
    run = _new_folder(seen, datetime.now(timezone.utc))
    known.remember(seen.runs)
    remember(run, RequestNote(request.into, request.recipes))
    if not request.detach:
        return _stay(request, seen, found, waived, run, lambda: None)
    code = detach.away(run, lambda begun: _stay(request, seen, found, waived, run, begun))
    run_text.detached(run, code)
    if request.as_json:
        click.echo((run / record.NAME).read_text("utf-8"), nl=False)
    return errors.FIT if code is None else code


def _stay(
    request: TrainRequest,
    seen: GateContext,
    found: tuple[Finding, ...],
    waived: tuple[str, ...],
    run: Path,
    started: Callable[[], None],
) -> int:
    """With the run to its end; `started` is called once its launcher is."""
    now = datetime.now(timezone.utc)
    made = command.render(seen.recipe, seen.job, filled(request, seen.recipe, seen.stage, run))
    tidy = clean_environment.clean(seen.sight.environment, made, seen.device, seen.stage.mark(run))
    context.sign(seen.runs)
    begun = {**record.head(seen), **record.beginning(seen, found, run, made, tidy, now), "waived": list(waived)}
    begun["said"] = RequestNote(request.into, request.recipes).as_values()
    record.keep(run, begun)
    run_text.start(run, made)
    monitor = choose_monitor.build_monitor(request, seen, run)
    teller = choose_monitor.choose_teller(request, seen, run, monitor)
    try:
        end = launcher.launch(seen.stage, made, tidy, run, teller, request.deadline_s, started, monitor)
    except StepError as err:
        why = {"exit": {"code": err.code, "status": None}, "error": err.message}
        record.keep(run, {**begun, "state": "unstarted", **why})
        raise
    except KeyboardInterrupt:  # before the launcher's own ear for it: no process was started yet
        record.keep(run, {**begun, "state": "interrupted", "exit": {"code": errors.INTERRUPTED, "status": None}})
        raise
    finally:
        teller.close()
    return _finish(request, run, begun, end)


def _new_folder(seen: GateContext, now: datetime) -> Path:
    try:
        run = record.folder(seen.runs, seen.recipe.name, now)
        (run / "output").mkdir()
        (run / "log").mkdir(container_agent.PRIVATE)  # launchers and programs write there what they were told
    except OSError as err:
        raise EnvcheckError(
            f"{seen.runs}: {(err.strerror or str(err)).lower()}", "name another folder: --runs"
        ) from None
    return run


def _finish(request: TrainRequest, run: Path, begun: record.Record, end: Ending) -> int:
    code = CODES[end.how]
    told = diagnose_failure.diagnosed(run, end, time.time() - end.seconds)
    done = {
        **begun,
        **record.ending(end, code),
        "memory": {**begun["memory"], "measured_bytes": record.measured(end, begun["device"])},
        "ended": record.time_text(datetime.now(timezone.utc)),
        "checkpoints": list(end.outputs),
        "diagnoses": diagnose_failure.values(told),
    }
    title = f"{begun['recipe']}, {begun['method']}: loss"
    try:
        (run / "loss.svg").write_text(loss_plot.svg(end.steps, title), encoding="utf-8")
    except OSError as err:
        click.echo(language.say(f"envcheck: no picture of the loss: {err.strerror or err}"), err=True)
    record.keep(run, done)
    if request.as_json and not request.detach:
        click.echo(record.as_text(done), nl=False)
    run_text.end(run, end, done["checkpoints"], code, told)
    return code

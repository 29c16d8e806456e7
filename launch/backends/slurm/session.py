"""`envcheck train --on slurm` from the request to the exit code."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import errors
from envcheck.core.errors import StepError, UsageError
from envcheck.core.version import SCHEMA_VERSION
from launch import written
from launch.backends.slurm import job, merge_records, node_reports, script, site, slurm_options, submit
from launch.backends.slurm.job import SlurmPlan
from launch.backends.slurm.submit import SCRIPT
from launch.job.request import Request
from launch.run import record, run_text
from launch.run.watch import Teller
from launch.runs import follow, known, shown
from launch.runs.backends import Own, PreviewOptions
from launch.runs.run_state import Run


def train(request: Request, own: Own, shown: PreviewOptions) -> int:
    """Show the script, write it, or submit it and stay with the job; the exit code."""
    wished = slurm_options.read(own)
    slurm_options.refuse(request)
    only_shown = shown.dry_run or shown.as_script or shown.write is not None
    plan = planned(request, wished, _rows(only_shown))
    if not only_shown:
        return _submitted(request, plan)
    text = script.text(plan)
    if shown.write is not None and not shown.dry_run:
        written.put(shown.write, {SCRIPT: text}, request.yes)
        click.echo(str(shown.write / SCRIPT))
    else:
        click.echo(_document(plan, text) if request.as_json else text, nl=False)
    return errors.FIT


def _submitted(request: Request, planned: SlurmPlan) -> int:
    """Stay with the job to its end, unless asked not to; Ctrl-C ends the looking, and not the job."""
    plan, said = submit.submit(request, planned, job.parts(request)[0])
    name = plan.run.name
    run_text.spoken_aside(f"envcheck: job {said['slurm']['job']} is Slurm's now: {plan.run}")
    run_text.spoken_aside(f"  envcheck runs follow {name}    its steps; show and stop as well")
    if request.detach:
        _echo(request, said)
        return errors.FIT
    try:
        run = follow.begun(_found(plan), run_text.say)
        with contextlib.closing(Teller(of=follow.of(run))) as teller:
            ended = follow.follow(run, teller)
    except KeyboardInterrupt:
        run_text.spoken_aside(f"envcheck: the job goes on; envcheck runs stop {name} ends it")
        raise
    _ended(ended)
    _echo(request, ended.said)
    return follow.code(ended)


def _found(plan: SlurmPlan) -> Run:
    run = known.read(plan.run)
    if run is None:
        raise StepError(f"{plan.run} holds no record any more", "envcheck runs lists those that do")
    return run


def _ended(run: Run) -> None:
    """How it went; where nodes were not fit, all that they saw."""
    if (refused := merge_records.look(run.folder)) is not None and run.state == "refused":
        for line in node_reports.told(node_reports.of_values(refused)):
            run_text.spoken_aside(line)
    run_text.say(shown.as_page(run))


def _echo(request: Request, said: record.Record) -> None:
    if request.as_json:
        click.echo(record.as_text(said), nl=False)


def _rows(only_shown: bool) -> tuple[site.PartitionRow, ...] | None:
    """What the site has; a script can be looked at where there is no Slurm."""
    try:
        return site.ask()
    except UsageError:
        if only_shown:
            return None
        raise


def planned(
    request: Request, wished: slurm_options.SlurmOptions, rows: tuple[site.PartitionRow, ...] | None
) -> SlurmPlan:
    """The job, its folder named after this moment, as the site can take it."""
    recipe, _ = job.parts(request)[0]
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{recipe.name}"
    run = request.runs.expanduser().absolute() / name
    return job.plan(request, wished, rows, run, program())


def program() -> str:
    """The envcheck that the nodes start: this one, which they see at the same place."""
    beside = Path(sys.executable).with_name("envcheck")
    found = str(beside) if beside.is_file() else shutil.which("envcheck")
    if not found:
        raise UsageError("there is no program envcheck beside its Python", "install envcheck where all nodes see it")
    return found


def _document(plan: SlurmPlan, text: str) -> str:
    parts = [
        {"device": c.device, "role": c.role, "nodes": c.nodes, "gres": c.place.gres, "partition": c.place.partition}
        for c in plan.components
    ]
    said = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "job": plan.name,
        "folder": str(plan.run),
        "components": parts,
    }
    return json.dumps({**said, "script": text}, indent=1) + "\n"

"""`envcheck train --on slurm` from the request to the exit code."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import errors
from envcheck.core.errors import StepError, UsageError
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.here import collect_environments_here
from envcheck.payload import pyz
from launch import gates, written
from launch.backends.node_findings import blocked_by, print_placement, refusal_values
from launch.backends.node_requirements import PlacementVerdict, apply_verdict
from launch.backends.roles import resolve_roles
from launch.backends.slurm import job, merge_records, node_reports, node_resources, script, site, slurm_options, submit
from launch.backends.slurm.job import SlurmPlan
from launch.backends.slurm.submit import SCRIPT
from launch.run import record
from launch.run.run_text import say, spoken_aside
from launch.run.watch import Teller
from launch.runs import follow, known, shown
from launch.runs.backends import Own, PreviewOptions
from launch.runs.run_state import Run
from launch.targets.request import TrainRequest


def train(request: TrainRequest, own: Own, shown: PreviewOptions) -> int:
    """Show the script, write it, or submit it and stay with the job; the exit code."""
    wished = slurm_options.read(own)
    slurm_options.refuse(request)
    only_shown = shown.dry_run or shown.as_script or shown.write is not None
    rows = _rows(only_shown)
    plan = planned(request, wished, rows)
    verdicts = _judge_nodes(request, plan, rows)
    print_placement(verdicts)
    if not only_shown:
        return _refuse(request, plan, verdicts) if blocked_by(verdicts) else _submitted(request, plan)
    text = script.text(plan)
    if shown.write is not None and not shown.dry_run:
        written.put(shown.write, {SCRIPT: text}, request.yes)
        click.echo(str(shown.write / SCRIPT))
    else:
        click.echo(_document(plan, text, verdicts) if request.as_json else text, nl=False)
    return errors.UNFIT if shown.dry_run and blocked_by(verdicts) else errors.FIT


def _judge_nodes(
    request: TrainRequest, plan: SlurmPlan, rows: tuple[site.PartitionRow, ...] | None
) -> tuple[PlacementVerdict, ...]:
    """() where there is no Slurm, or it tells nothing of its nodes, which is said."""
    if rows is None:
        return ()
    nodes = node_resources.ask()
    if isinstance(nodes, str):
        spoken_aside(f"note: the nodes were not checked before submission: {nodes}")
        return ()
    waived = gates.waive.asked(request.waive, request.because, gates.GATES)
    return node_resources.judge_plan(plan, rows, nodes, os.environ, [each.name for each in waived])


def _refuse(request: TrainRequest, plan: SlurmPlan, verdicts: tuple[PlacementVerdict, ...]) -> int:
    """Nothing was queued, and no folder made."""
    spoken_aside("envcheck: nothing was submitted")
    if request.as_json:
        said = {"schema": SCHEMA_VERSION, "state": "refused", "name": plan.name, "exit": {"code": errors.UNFIT}}
        click.echo(json.dumps({**said, **refusal_values(verdicts)}, indent=1))
    return errors.UNFIT


def _submitted(request: TrainRequest, planned: SlurmPlan) -> int:
    """Stay with the job to its end, unless asked not to; Ctrl-C ends the looking, and not the job."""
    plan, said = submit.submit(request, planned)
    name = plan.run.name
    spoken_aside(f"envcheck: job {said['slurm']['job']} is Slurm's now: {plan.run}")
    spoken_aside(f"  envcheck runs follow {name}    its steps; show and stop as well")
    if request.detach:
        _echo(request, said)
        return errors.FIT
    try:
        run = follow.begun(_found(plan), say)
        with contextlib.closing(Teller(of=follow.of(run))) as teller:
            ended = follow.follow(run, teller)
    except KeyboardInterrupt:
        spoken_aside(f"envcheck: the job goes on; envcheck runs stop {name} ends it")
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
            spoken_aside(line)
    say(shown.as_page(run))


def _echo(request: TrainRequest, said: record.Record) -> None:
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
    request: TrainRequest, wished: slurm_options.SlurmOptions, rows: tuple[site.PartitionRow, ...] | None
) -> SlurmPlan:
    """The job, its folder named after this moment, as the site can take it."""
    jobs = resolve_roles(request, collect_environments_here(request))
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{jobs[0].recipe.name}"
    run = request.runs.expanduser().absolute() / name
    return job.plan(request, jobs, wished, rows, run, program())


def program() -> str:
    """The envcheck that the nodes start: this one, which they see at the same place."""
    if file := pyz.archive():
        if not os.access(file, os.X_OK):
            raise UsageError(f"{file} is not executable, and each node starts it", f"chmod +x {file}")
        return str(file)
    beside = Path(sys.executable).with_name("envcheck")
    found = str(beside) if beside.is_file() else shutil.which("envcheck")
    if not found:
        raise UsageError("there is no program envcheck beside its Python", "install envcheck where all nodes see it")
    return found


def _document(plan: SlurmPlan, text: str, verdicts: Sequence[PlacementVerdict]) -> str:
    """`job` is that of the leading nodes; each component of a job over mixed cards has its own."""
    judged = itertools.zip_longest(plan.components, verdicts)
    jobs = [apply_verdict(component.job, verdict).as_json() for component, verdict in judged]
    parts = [
        {
            "device": c.device,
            "role": c.role,
            "nodes": c.nodes,
            "gres": c.place.gres,
            "partition": c.place.partition,
            "job": one,
        }
        for c, one in zip(plan.components, jobs, strict=True)
    ]
    said = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "name": plan.name,
        "job": jobs[0],
        "folder": str(plan.run),
        "components": parts,
    }
    return json.dumps({**said, "script": text}, indent=1) + "\n"

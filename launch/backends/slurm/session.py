"""`envcheck train --on slurm`: show, write, or submit and follow a job."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import click
import psutil

from envcheck.core import errors
from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import _, verbatim
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.local_facts import collect_environments_here
from envcheck.payload import pyz
from launch import gates, job_files
from launch.backends import submission_checks
from launch.backends.node_findings import blocked_by, print_placement, refusal_values
from launch.backends.node_requirements import PlacementVerdict, apply_verdict
from launch.backends.roles import resolve_roles
from launch.backends.slurm import (
    batch_script,
    job_plan,
    merge_records,
    node_reports,
    node_resources,
    site,
    slurm_options,
    submit,
)
from launch.backends.slurm.job_plan import SlurmPlan
from launch.backends.slurm.submit import SCRIPT
from launch.run import record, states
from launch.run.run_text import print_line, print_translated
from launch.run.watch import ProgressLine
from launch.runs import follow, run_index, run_pages
from launch.runs.backends import OwnOptions, PreviewOptions
from launch.runs.run_state import Run
from launch.targets.train_request import TrainRequest


def train(request: TrainRequest, own: OwnOptions, shown: PreviewOptions) -> int:
    """Show or write the script, or submit it and follow the job; return the exit code."""
    options = slurm_options.parse_slurm_options(own, request.restart)
    request = replace(request, restart=0)  # of the whole job, not of a node
    slurm_options.refuse_unsupported_options(request)
    only_shown = shown.dry_run or shown.as_script or shown.write is not None
    rows = _query_partitions(only_shown)
    plan = plan_request(request, options, rows)
    for component in plan.components:
        submission_checks.check_shared_paths(request, component.job, _list_waived(request))
    verdicts = _judge_nodes(request, plan, rows)
    print_placement(verdicts)
    if not only_shown:
        return _report_refusal(request, plan, verdicts) if blocked_by(verdicts) else _submit_and_follow(request, plan)
    text = batch_script.render_script(plan)
    if shown.write is not None and not shown.dry_run:
        job_files.write_files(shown.write, {SCRIPT: text}, request.yes)
        click.echo(str(shown.write / SCRIPT))
    else:
        click.echo(_render_document(plan, text, verdicts) if request.as_json else text, nl=False)
    return errors.CHECK_FAILED if shown.dry_run and blocked_by(verdicts) else errors.SUCCESS


def _print_local_paths(request: TrainRequest, plan: SlurmPlan) -> None:
    """Print, on stderr, each path of the job that other nodes may not see."""
    mounts = [(each.mountpoint, each.fstype) for each in psutil.disk_partitions(all=True)]
    notes = (
        submission_checks.describe_local_paths(request, component.job, find_program(), mounts)
        for component in plan.components
    )
    for note in dict.fromkeys(itertools.chain.from_iterable(notes)):
        print_translated(note)


def _judge_nodes(
    request: TrainRequest, plan: SlurmPlan, rows: tuple[site.PartitionRow, ...] | None
) -> tuple[PlacementVerdict, ...]:
    """Return one verdict per component; () without Slurm or, with a note on stderr, if scontrol fails."""
    if rows is None:
        return ()
    nodes = node_resources.list_nodes()
    if isinstance(nodes, str):
        print_translated(_("note: the nodes were not checked before submission: {reason}", reason=nodes))
        return ()
    if any(node.name != platform.node().partition(".")[0] for node in nodes):
        _print_local_paths(request, plan)
    return node_resources.judge_plan(plan, rows, nodes, os.environ, _list_waived(request))


def _list_waived(request: TrainRequest) -> list[str]:
    return [each.name for each in gates.waive.parse_waivers(request.waive, request.because, gates.GATES)]


def _report_refusal(request: TrainRequest, plan: SlurmPlan, verdicts: tuple[PlacementVerdict, ...]) -> int:
    """Report that the job was not submitted; no run folder exists yet."""
    print_translated(_("envcheck: the job was not submitted"))
    if request.as_json:
        head = {
            "schema": SCHEMA_VERSION,
            "state": states.REFUSED,
            "name": plan.name,
            "exit": {"code": errors.CHECK_FAILED},
        }
        click.echo(json.dumps({**head, **refusal_values(verdicts)}, indent=1))
    return errors.CHECK_FAILED


def _submit_and_follow(request: TrainRequest, planned: SlurmPlan) -> int:
    """Submit the job and, without --detach, follow it to its end; Ctrl-C stops following, not the job."""
    plan, submitted = submit.submit_job(request, planned)
    name = plan.run.name
    print_translated(
        _("envcheck: submitted Slurm job {job}; run folder: {run}", job=submitted["slurm"]["job"], run=plan.run)
    )
    print_translated(_("  follow it: envcheck runs follow {name}; stop it: envcheck runs stop {name}", name=name))
    if request.detach:
        _print_record(request, submitted)
        return errors.SUCCESS
    try:
        run = follow.wait_until_started(_read_submitted_run(plan), print_line)
        with contextlib.closing(ProgressLine(of=follow.planned_steps(run))) as teller:
            ended = follow.follow_run(run, teller)
    except KeyboardInterrupt:
        print_translated(_("envcheck: the job keeps running; to stop it: envcheck runs stop {name}", name=name))
        raise
    _print_end(ended)
    _print_record(request, ended.said)
    return follow.exit_code(ended)


def _read_submitted_run(plan: SlurmPlan) -> Run:
    run = run_index.read_run(plan.run)
    if run is None:
        raise StepError(
            _("the record of run {run} is missing", run=plan.run), _("list the active runs with `envcheck runs`")
        )
    return run


def _print_end(run: Run) -> None:
    """Print the end of the run; after failed preflight checks, each failed check with its nodes."""
    if (refused := merge_records.read_refused_verdict(run.folder)) is not None and run.state == states.REFUSED:
        for line in node_reports.describe_verdict(node_reports.parse_verdict_values(refused)):
            print_translated(line)
    print_line(run_pages.as_page(run))


def _print_record(request: TrainRequest, run_record: record.Record) -> None:
    if request.as_json:
        click.echo(record.as_text(run_record), nl=False)


def _query_partitions(only_shown: bool) -> tuple[site.PartitionRow, ...] | None:
    """Return the partitions; None without Slurm, and also if sinfo fails while the script is only shown."""
    try:
        return site.query_partitions()
    except UsageError:
        if only_shown:
            return None
        raise


def plan_request(
    request: TrainRequest, options: slurm_options.SlurmOptions, rows: tuple[site.PartitionRow, ...] | None
) -> SlurmPlan:
    """Return the plan of the job; its run folder is named after the current time."""
    jobs = resolve_roles(request, collect_environments_here(request))
    name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{jobs[0].recipe.name}"
    run = request.runs.expanduser().absolute() / name
    return job_plan.build_plan(request, jobs, options, rows, run, find_program())


def find_program() -> str:
    """Return the path of the running envcheck, which the nodes start from the same path."""
    if file := pyz.find_archive():
        if not os.access(file, os.X_OK):
            raise UsageError(
                _("{file} is not executable, and each node runs it", file=file), verbatim(f"chmod +x {file}")
            )
        return str(file)
    sibling = Path(sys.executable).with_name("envcheck")
    found = str(sibling) if sibling.is_file() else shutil.which("envcheck")
    if not found:
        raise UsageError(
            _("program envcheck not found next to {python} or in PATH", python=sys.executable),
            _("install envcheck on a file system that all nodes share"),
        )
    return found


def _render_document(plan: SlurmPlan, text: str, verdicts: Sequence[PlacementVerdict]) -> str:
    """Return the JSON document of --dry-run; `job` is the job of the first component."""
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
    document = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "name": plan.name,
        "job": jobs[0],
        "folder": str(plan.run),
        "components": parts,
    }
    return json.dumps({**document, "script": text}, indent=1) + "\n"

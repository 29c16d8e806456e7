"""`envcheck slurm verdict`: called by the job script after the preflight checks of its nodes; its exit code decides
whether the training starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _
from envcheck.fleet.hosts import resolve_hosts
from launch.backends.slurm import control, node_reports
from launch.backends.slurm.node_reports import NodesVerdict

NAME = "verdict.json"
RESTARTS = 5  # after five requeues the cause is the site or the job, not a node


def judge_job_nodes(
    folder: Path, requeue: bool, drain: bool, environment: Mapping[str, str] | None = None
) -> NodesVerdict:
    """Print and save the failed preflight checks of the nodes, then drain nodes and requeue the job if requested."""
    around = os.environ if environment is None else environment
    parts = list_components(around)
    found = node_reports.judge_nodes(folder, [node for _, nodes in parts for node in nodes])
    for line in node_reports.describe_verdict(found):  # English: slurm.log is read by `envcheck explain`
        click.echo(line, err=True)
    _write_verdict(folder, found)
    if not found.closed:
        return found
    if drain:
        for error in control.drain_nodes({node: gate.reason for node, gate in found.faulty_machines.items()}):
            click.echo(_("envcheck: {error}", error=error), err=True)
    if requeue:
        click.echo(_("envcheck: {result}", result=_requeue_job(found, parts, around)), err=True)
    return found


def list_components(around: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return (job id, nodes) of the job, or of each component of a heterogeneous job, from Slurm's variables."""
    many = int(around.get("SLURM_HET_SIZE", "0") or 0)
    ends = [f"_HET_GROUP_{n}" for n in range(min(many, 128))] or [""]
    found = [(around.get(f"SLURM_JOB_ID{end}", ""), around.get(f"SLURM_JOB_NODELIST{end}", "")) for end in ends]
    if not all(number and nodes for number, nodes in found):
        raise UsageError(
            _("not running in a Slurm job"), _("this command is called by the script of `envcheck train --on slurm`")
        )
    return [(number, resolve_hosts([nodes])) for number, nodes in found]


def _requeue_job(found: NodesVerdict, parts: list[tuple[str, list[str]]], around: Mapping[str, str]) -> Message:
    from envcheck.core.host_names import fold_hosts

    if not found.bad_nodes:
        return _("the job is not requeued: all nodes have the same problem, so other nodes would have it too")
    if int(around.get("SLURM_RESTART_COUNT", "0") or 0) >= RESTARTS:
        return _("the job is not requeued: it was requeued {count} times already", count=RESTARTS)
    bad = [(job, [node for node in nodes if node in found.bad_nodes]) for job, nodes in parts]
    error = control.requeue_without(parts[0][0], [(job, nodes) for job, nodes in bad if nodes])
    return error or _("the job was requeued and excludes {nodes}", nodes=fold_hosts(found.bad_nodes))


def _write_verdict(folder: Path, found: NodesVerdict) -> None:
    """Save the verdict for `envcheck runs`; a full disk is reported and does not end the job."""
    try:
        (folder / NAME).write_text(
            json.dumps(node_reports.list_verdict_values(found), indent=1) + "\n", encoding="utf-8"
        )
    except OSError as err:
        click.echo(_("envcheck: cannot write {path}: {reason}", path=folder / NAME, reason=err.strerror), err=True)

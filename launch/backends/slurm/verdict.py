"""`envcheck slurm verdict`: in the job's script, after its nodes have looked at themselves; the exit code decides."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from envcheck.core.errors import UsageError
from envcheck.fleet.hosts import chosen
from launch.backends.slurm import control, node_reports
from launch.backends.slurm.node_reports import NodesVerdict

NAME = "verdict.json"
RESTARTS = 5  # after so many the site, not a node, is at fault


def verdict(folder: Path, requeue: bool, drain: bool, environment: Mapping[str, str] | None = None) -> NodesVerdict:
    """Say what is wrong with which nodes, write it down, and act as asked."""
    around = os.environ if environment is None else environment
    parts = components(around)
    found = node_reports.judged(folder, [node for _, nodes in parts for node in nodes])
    for line in node_reports.told(found):
        click.echo(line, err=True)
    _write(folder, found)
    if not found.closed:
        return found
    if drain:
        for line in control.drain({node: shut.reason for node, shut in found.sick.items()}):
            click.echo(f"envcheck: {line}", err=True)
    if requeue:
        click.echo(f"envcheck: {_requeued(found, parts, around)}", err=True)
    return found


def components(around: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """(job number, nodes) of the job, or of each component of a heterogeneous one, from Slurm's variables."""
    many = int(around.get("SLURM_HET_SIZE", "0") or 0)
    ends = [f"_HET_GROUP_{n}" for n in range(min(many, 128))] or [""]
    found = [(around.get(f"SLURM_JOB_ID{end}", ""), around.get(f"SLURM_JOB_NODELIST{end}", "")) for end in ends]
    if not all(number and nodes for number, nodes in found):
        raise UsageError("this is no job of Slurm's", "the script of `envcheck train --on slurm` calls it")
    return [(number, chosen([nodes])) for number, nodes in found]


def _requeued(found: NodesVerdict, parts: list[tuple[str, list[str]]], around: Mapping[str, str]) -> str:
    from envcheck.core.host_names import fold_hosts

    if not found.bad:
        return "it is not put back: what all nodes have alike, other nodes will have too"
    if int(around.get("SLURM_RESTART_COUNT", "0") or 0) >= RESTARTS:
        return f"it is not put back: it was {RESTARTS} times already"
    told = [(number, [node for node in nodes if node in found.bad]) for number, nodes in parts]
    wrong = control.requeue_without(parts[0][0], [(number, nodes) for number, nodes in told if nodes])
    return wrong or f"the job is back in the queue, and shuns {fold_hosts(found.bad)}"


def _write(folder: Path, found: NodesVerdict) -> None:
    """For `envcheck runs`; that the disk is full ends nothing here."""
    try:
        (folder / NAME).write_text(json.dumps(node_reports.values(found), indent=1) + "\n", encoding="utf-8")
    except OSError as err:
        click.echo(f"envcheck: {folder / NAME} cannot be written: {err.strerror}", err=True)

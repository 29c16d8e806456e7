"""`envcheck train --on slurm` from the request to the exit code."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck import errors
from envcheck.engines import Own, Shown
from envcheck.errors import UsageError
from launch.rendering import written
from launch.request import Request
from launch.slurm import job, script, site, wish
from launch.slurm.job import Plan

SCHEMA = 1
SCRIPT = "job.sbatch"


def train(request: Request, own: Own, shown: Shown) -> int:
    """Show the script, write it, or submit it and stay with the job; the exit code."""
    wished = wish.read(own)
    wish.refuse(request)
    only_shown = shown.dry_run or shown.as_script or shown.write is not None
    plan = planned(request, wished, _rows(only_shown))
    text = script.text(plan)
    if shown.write is not None and not shown.dry_run:
        written.put(shown.write, {SCRIPT: text}, request.yes)
        click.echo(str(shown.write / SCRIPT))
    elif only_shown:
        click.echo(_document(plan, text) if request.as_json else text, nl=False)
    else:
        raise UsageError("nothing is submitted yet", "say --dry-run, and give what it prints to sbatch")
    return errors.FIT


def _rows(only_shown: bool) -> tuple[site.Row, ...] | None:
    """What the site has; a script can be looked at where there is no Slurm."""
    try:
        return site.ask()
    except UsageError:
        if only_shown:
            return None
        raise


def planned(request: Request, wished: wish.Wish, rows: tuple[site.Row, ...] | None) -> Plan:
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


def _document(plan: Plan, text: str) -> str:
    parts = [
        {"device": c.device, "role": c.role, "nodes": c.nodes, "gres": c.place.gres, "partition": c.place.partition}
        for c in plan.components
    ]
    said = {"schema": SCHEMA, "state": "planned", "job": plan.name, "folder": str(plan.run), "components": parts}
    return json.dumps({**said, "script": text}, indent=1) + "\n"

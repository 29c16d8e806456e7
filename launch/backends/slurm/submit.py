"""A job given to sbatch: its folder, its script and its record first, so that nothing runs that nobody knows."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import datetime, timezone

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.process import run as start
from envcheck.core.version import SCHEMA_VERSION
from launch.backends.slurm import control, sbatch_options, script
from launch.backends.slurm.job import SlurmPlan
from launch.programs.container_agent import PRIVATE
from launch.run import record
from launch.runs import known
from launch.runs.request_note import RequestNote, remember
from launch.targets.request import TrainRequest

SCRIPT = "job.sbatch"
_NUMBER = re.compile(r"^(\d+)(?:;.*)?$", re.MULTILINE)  # 123, or 123;cluster


def submit(request: TrainRequest, planned: SlurmPlan) -> tuple[SlurmPlan, record.Record]:
    """The plan with the folder that was made for it, and the record as it stands then; StepError with sbatch's own
    words."""
    try:
        plan = _housed(planned, planned.components[0].job.recipe.name)
        (plan.run / SCRIPT).write_text(text := script.text(plan), encoding="utf-8")
    except OSError as err:
        raise EnvcheckError(
            f"{planned.run}: {(err.strerror or str(err)).lower()}", "name another folder: --runs"
        ) from None
    argv = ("sbatch", "--parsable", str(plan.run / SCRIPT))
    begun = _begun(plan, argv) | {"said": RequestNote(request.into, request.recipes).as_values()}
    told = start(argv, timeout_s=control.TIMEOUT_S, env=sbatch_options.around(os.environ, text))
    found = _NUMBER.search(told.out)
    if told.status or not found:
        why = "there is no sbatch here" if told.absent else control.why(told)
        record.keep(
            plan.run, {**begun, "state": "unstarted", "exit": {"code": StepError.code, "status": None}, "error": why}
        )
        raise StepError(f"sbatch takes no job: {why}", "--dry-run shows the script; sinfo shows what there is")
    begun["slurm"]["job"] = found[1]
    record.keep(plan.run, begun)
    known.remember(plan.run.parent)
    remember(plan.run, RequestNote(request.into, request.recipes))
    return plan, begun


def _housed(plan: SlurmPlan, recipe: str) -> SlurmPlan:
    """In a folder of its own, made now: a second job of the same second gets another; raises OSError."""
    plan.run.parent.mkdir(parents=True, exist_ok=True)
    run = record.folder(plan.run.parent, recipe, datetime.now(timezone.utc))
    (run / "log").mkdir(PRIVATE)
    return replace(plan, run=run)


def _begun(plan: SlurmPlan, argv: tuple[str, ...]) -> record.Record:
    job = plan.components[0].job
    method = job.method
    parts = [
        {"device": c.device, "role": c.role, "nodes": c.nodes, "gres": c.place.gres, "partition": c.place.partition}
        for c in plan.components
    ]
    return {
        "schema": SCHEMA_VERSION,
        "recipe": job.recipe.name,
        "model": job.recipe.models[0],
        "method": method.method,
        "device": job.device,
        "state": "running",
        "started": record.time_text(datetime.now(timezone.utc)),
        "folder": str(plan.run),
        "command": list(argv),
        "plan": {"nodes": method.nodes, "processes": method.processes, "steps": dict(method.steps)},
        "slurm": {"job": "", "nodes": plan.nodes, "components": parts},
    }

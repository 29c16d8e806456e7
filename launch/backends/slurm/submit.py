"""Submit a job with sbatch. Folder, script and record are written first, so that every submitted job has a record."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import datetime, timezone

from envcheck.core.errors import EnvcheckError, StepError, describe_os_error
from envcheck.core.messages import _
from envcheck.core.process import run_command as start
from envcheck.core.version import SCHEMA_VERSION
from launch.backends.slurm import batch_script, control, sbatch_options
from launch.backends.slurm.job_plan import SlurmPlan
from launch.programs.container_agent import PRIVATE
from launch.run import record, states
from launch.runs import run_index
from launch.runs.request_note import RequestNote, save_note
from launch.targets.train_request import TrainRequest

SCRIPT = "job.sbatch"
_NUMBER = re.compile(r"^(\d+)(?:;.*)?$", re.MULTILINE)  # 123, or 123;cluster


def submit_job(request: TrainRequest, planned: SlurmPlan) -> tuple[SlurmPlan, record.Record]:
    """Submit the job; return the plan with its run folder, and the record. StepError with sbatch's error message."""
    try:
        plan = _create_run_folder(planned, planned.components[0].job.recipe.name)
        (plan.run / SCRIPT).write_text(text := batch_script.render_script(plan), encoding="utf-8")
    except OSError as err:
        raise EnvcheckError(
            _("{folder}: {reason}", folder=planned.run, reason=describe_os_error(err)),
            _("choose another folder with --runs"),
        ) from None
    argv = ("sbatch", "--parsable", str(plan.run / SCRIPT))
    run_record = _build_record(plan, argv) | {"options": RequestNote(request.into, request.recipes).as_values()}
    done = start(argv, timeout_s=control.TIMEOUT_S, env=sbatch_options.build_sbatch_environment(os.environ, text))
    found = _NUMBER.search(done.out)
    if done.status or not found:
        why = _("sbatch not found") if done.absent else control.describe_error(done)
        failed = {
            **states.list_end_values(states.UNSTARTED),
            "exit": {"code": StepError.code, "status": None},
            **record.list_error_values(why),
        }
        record.save_record(plan.run, {**run_record, **failed})
        raise StepError(
            _("cannot submit the job: {reason}", reason=why),
            _("show the script with --dry-run, and the partitions with `sinfo`"),
        )
    run_record["slurm"]["job"] = found[1]
    record.save_record(plan.run, run_record)
    run_index.remember_folder(plan.run.parent)
    save_note(plan.run, RequestNote(request.into, request.recipes))
    return plan, run_record


def _create_run_folder(plan: SlurmPlan, recipe: str) -> SlurmPlan:
    """Return the plan with a new run folder; a second job in the same second gets another one. Raises OSError."""
    plan.run.parent.mkdir(parents=True, exist_ok=True)
    run = record.create_folder(plan.run.parent, recipe, datetime.now(timezone.utc))
    (run / "log").mkdir(PRIVATE)
    return replace(plan, run=run)


def _build_record(plan: SlurmPlan, argv: tuple[str, ...]) -> record.Record:
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
        "state": states.RUNNING,
        "started": record.format_time(datetime.now(timezone.utc)),
        "folder": str(plan.run),
        "command": list(argv),
        "plan": {"nodes": method.nodes, "processes": method.processes, "steps": dict(method.steps)},
        "slurm": {"job": "", "nodes": plan.nodes, "components": parts},
    }

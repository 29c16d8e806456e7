"""The end of a run: diagnoses, record, loss curve, result."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import errors, language
from envcheck.core.errors import describe_os_error
from envcheck.core.messages import _
from launch.run import diagnose_failure, loss_plot, record, run_text
from launch.run.launcher import TrainingEnd

CODES = {
    "finished": errors.SUCCESS,
    "failed": errors.TRAINING_FAILED,
    "deadline": errors.TRAINING_FAILED,
    "stopped": errors.TRAINING_FAILED,
    "unstarted": errors.STEP_FAILED,
    "interrupted": errors.INTERRUPTED,
}


def finish_run(run: Path, begun: record.Record, end: TrainingEnd) -> int:
    """Complete the record, draw the loss curve and print the result; return the exit code."""
    code = CODES[end.how]
    found = diagnose_failure.diagnose_run(run, end, time.time() - end.seconds)
    diagnoses = diagnose_failure.name_own_job(found, begun)
    done = {
        **begun,
        **record.build_end_values(end, code),
        "memory": {**begun["memory"], "measured_bytes": record.measured_peak_bytes(end, begun["device"])},
        "ended": record.format_time(datetime.now(timezone.utc)),
        "checkpoints": list(end.outputs),
        "diagnoses": diagnose_failure.list_diagnosis_values(diagnoses),
    }
    title = _("{recipe}, {method}: loss", recipe=begun["recipe"], method=begun["method"])
    try:
        (run / "loss.svg").write_text(loss_plot.render_svg(end.steps, title), encoding="utf-8")
    except OSError as err:
        click.echo(
            language.translate(_("envcheck: cannot draw the loss curve: {reason}", reason=describe_os_error(err))),
            err=True,
        )
    record.save_final_record(run, done)
    run_text.print_end(run, end, done["checkpoints"], code, diagnoses)
    return code

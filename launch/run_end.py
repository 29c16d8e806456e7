"""The end of a run: diagnoses, record, loss curve, result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from envcheck.core import language
from envcheck.core.errors import describe_os_error
from envcheck.core.messages import _
from launch.restart_run import RunOutcome, find_fault
from launch.run import diagnose_failure, loss_plot, record, run_text, states
from launch.run.launcher import TrainingEnd
from launch.run.trackers import list_trackers
from launch.runs.request_note import read_note


def _takes_checkpoint(own: Mapping[str, Any] | None) -> bool:
    """Whether `train --resume` can add an option to the command: not to a script, nor for an unknown program."""
    if own is None:
        return True
    framework = own["values"].get("framework", {}).get("value")
    return bool(framework) and not str(own["source"]).endswith((".sh", ".bash"))


def finish_run(run: Path, begun: record.Record, end: TrainingEnd) -> RunOutcome:
    """Complete the record, draw the loss curve and print the result; return how the run ended."""
    code = states.ENDS[end.how].code
    found = diagnose_failure.diagnose_run(run, end, time.time() - end.seconds)
    diagnoses = diagnose_failure.name_own_job(found, begun)
    done = {
        **begun,
        **record.build_end_values(end, code),
        "memory": {**begun["memory"], "measured_bytes": record.measured_peak_bytes(end, begun["device"])},
        "ended": record.format_time(datetime.now(timezone.utc)),
        "checkpoints": list(end.outputs),
        "trackers": list_trackers(run),
        "diagnoses": diagnose_failure.list_diagnosis_values(diagnoses),
    }
    record.save_final_record(run, done)
    try:
        loss_plot.save_curve(run, end.steps, begun["recipe"], begun["method"])
    except OSError as err:
        click.echo(
            language.translate(_("envcheck: cannot draw the loss curve: {reason}", reason=describe_os_error(err))),
            err=True,
        )
    run_text.print_end(run, end, done["checkpoints"], code, diagnoses)
    if end.how != states.SUCCEEDED and read_note(run).words:
        run_text.print_continuation(run.name, bool(end.outputs) and _takes_checkpoint(begun.get("own")))
    return RunOutcome(code, find_fault(end, diagnoses), bool(end.outputs))

"""The end of a run: diagnoses, record, loss curve, result."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import click

from envcheck.core import language
from envcheck.core.errors import EnvcheckError, describe_os_error
from envcheck.core.messages import _
from envcheck.scripts.jobs.option_names import KITS
from installers.recipes import catalogue
from launch.rendering.resume_option import find_resume_option
from launch.restart_run import RunOutcome, find_fault
from launch.run import diagnose_failure, loss_plot, record, run_text, states
from launch.run.launcher import TrainingEnd
from launch.run.trackers import list_trackers
from launch.runs.request_note import RequestNote, read_note


def _takes_checkpoint(note: RequestNote, begun: record.Record) -> bool:
    """Whether `train --resume` can add an option to the command of the run."""
    own = begun.get("own")
    words = [str(word) for word in begun["command"]]
    if own is not None:
        title = own["values"].get("framework", {}).get("value")
        framework = next((kit.planner for kit in KITS.values() if kit.title == title), "")
        return find_resume_option(framework, words, str(own["source"])) is not None
    try:
        recipe = catalogue.find_recipe(catalogue.load_all(note.recipes), begun["recipe"])
    except EnvcheckError:  # the user's recipe is gone
        return False
    return find_resume_option(recipe.framework, words) is not None


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
    note = read_note(run)
    if end.how != states.SUCCEEDED and note.words:
        run_text.print_continuation(run.name, bool(end.outputs) and _takes_checkpoint(note, begun))
    return RunOutcome(code, find_fault(end, diagnoses), bool(end.outputs))

"""The record of a chat: a run folder with run.json, as for a training, and the text of the chat (log/talk.log)."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import psutil

from envcheck.core.errors import EnvcheckError, StepError, describe_os_error
from envcheck.core.messages import _
from envcheck.core.secrets import redact_words
from envcheck.core.version import SCHEMA_VERSION, __version__
from envcheck.job import command
from installers.recipes.catalogue import job_device
from launch.gates.context import GateContext
from launch.infer import chat_text, dialogue
from launch.infer.chat_options import ChosenChat
from launch.infer.chat_programs import ChatProgram
from launch.infer.dialogue import DialogueOutcome
from launch.run import record, states
from launch.targets import clean_environment


@dataclass(frozen=True)
class ChatStart:
    """Everything known before a chat starts; `program` drives the dialogue of --ask, None if a person types."""

    chosen: ChosenChat
    seen: GateContext
    made: command.TrainingCommand
    tidy: clean_environment.CleanEnvironment
    run: Path
    program: ChatProgram | None
    question: str


def list_head_values(seen: GateContext) -> record.Record:
    """Return the fields that identify the job."""
    return {
        "recipe": seen.recipe.name,
        "model": seen.recipe.models[0],
        "method": seen.job.method,
        "device": job_device((seen.recipe, seen.job)),
    }


def build_start_record(start: ChatStart) -> record.Record:
    """Return the record as written before the program starts."""
    seen, made, tidy = start.seen, start.made, start.tidy
    return {
        "schema": SCHEMA_VERSION,
        **list_head_values(seen),
        "state": states.RUNNING,
        "started": record.format_time(datetime.now(timezone.utc)),
        "pid": os.getpid(),
        "pid_started": psutil.Process().create_time(),
        "folder": str(start.run),
        "container": seen.stage.container or None,
        "chat_source": {"run": start.chosen.run_id or None, "weights": start.chosen.adapter or None},
        "command": list(redact_words(made.argv)),
        "environment": record.list_environment({**made.environment, **made.prepend}),
        "dropped_variables": {"stale": list(tidy.stale), "secret": list(tidy.secret)},
        "versions": {"envcheck": __version__, "python": platform.python_version(), "environment": seen.sight.python}
        | {"packages": dict(seen.sight.packages)},
        "checkpoints": [],
    }


def write_final_record(
    run: Path,
    said: record.Record,
    question: str,
    how: str,
    status: int | None,
    outcome: DialogueOutcome | None,
    why: str,
) -> record.Record:
    """Write the final record and the text of the chat; return the record."""
    began, now = datetime.fromisoformat(said["started"]), datetime.now(timezone.utc)
    done: record.Record = {
        **said,
        **states.list_end_values(how),
        "exit": {"code": states.ENDS[how].code, "status": status},
        "seconds": round((now - began).total_seconds(), 1),
        "ended": record.format_time(now),
        "error": why or (dialogue.WHY[outcome.how] if outcome and how == states.FAILED else None),
        "chat": chat_text.as_values(question, outcome) if outcome else None,
    }
    try:
        if outcome:
            (run / "log" / "talk.log").write_text(outcome.said, encoding="utf-8")
    except OSError as err:
        raise StepError(
            _("{run}/log: {reason}", run=run, reason=describe_os_error(err)), _("free disk space")
        ) from None
    record.save_record(run, done)
    return done


def create_run_folder(seen: GateContext) -> Path:
    """Create and return the folder of a new run."""
    try:
        run = record.create_folder(seen.runs, seen.recipe.name, datetime.now(timezone.utc))
        (run / "log").mkdir()
    except OSError as err:
        said = _("{folder}: {reason}", folder=seen.runs, reason=describe_os_error(err))
        raise EnvcheckError(said, _("choose another folder with --runs")) from None
    return run

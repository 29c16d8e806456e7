"""What is left of a talk: a folder among the runs with a record like theirs, and what was said."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import psutil

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.secrets import blank_words
from envcheck.core.version import SCHEMA_VERSION, __version__
from envcheck.job import command
from installers.recipes.catalogue import device_of
from launch.gates.context import GateContext
from launch.infer import chat_text, dialogue
from launch.infer.chat_options import ChosenChat
from launch.infer.dialogue import DialogueOutcome
from launch.infer.talks import ChatProgram
from launch.run import record
from launch.targets import clean_environment

CODES = {
    "finished": errors.FIT,
    "failed": errors.TRAINING_FAILED,
    "interrupted": errors.INTERRUPTED,
    "unstarted": errors.STEP_FAILED,
}


@dataclass(frozen=True)
class Begun:
    """A talk about to begin; `talk` is how its program talks, None for who types by himself."""

    chosen: ChosenChat
    seen: GateContext
    made: command.TrainingCommand
    tidy: clean_environment.CleanEnvironment
    run: Path
    talk: ChatProgram | None
    question: str


def head(seen: GateContext) -> record.Record:
    return {
        "recipe": seen.recipe.name,
        "model": seen.recipe.models[0],
        "method": seen.job.method,
        "device": device_of((seen.recipe, seen.job)),
    }


def begin(begun: Begun) -> record.Record:
    """What is known before the program starts."""
    seen, made, tidy = begun.seen, begun.made, begun.tidy
    return {
        "schema": SCHEMA_VERSION,
        **head(seen),
        "state": "running",
        "started": record.time_text(datetime.now(timezone.utc)),
        "pid": os.getpid(),
        "pid_began": psutil.Process().create_time(),
        "folder": str(begun.run),
        "container": seen.stage.container or None,
        "talks_with": {"run": begun.chosen.of or None, "weights": begun.chosen.adapter or None},
        "command": list(blank_words(made.argv)),
        "environment": record.environment({**made.environment, **made.prepend}),
        "left_out": {"stale": list(tidy.stale), "secret": list(tidy.secret)},
        "versions": {"envcheck": __version__, "python": platform.python_version(), "environment": seen.sight.python}
        | {"packages": dict(seen.sight.packages)},
        "checkpoints": [],
    }


def end(
    run: Path,
    said: record.Record,
    question: str,
    state: str,
    status: int | None,
    outcome: DialogueOutcome | None,
    why: str,
) -> record.Record:
    """The whole record, written."""
    began, now = datetime.fromisoformat(said["started"]), datetime.now(timezone.utc)
    done: record.Record = {
        **said,
        "state": state,
        "exit": {"code": CODES[state], "status": status},
        "seconds": round((now - began).total_seconds(), 1),
        "ended": record.time_text(now),
        "error": why or (dialogue.WHY[outcome.how] if outcome and state == "failed" else None),
        "talk": chat_text.as_values(question, outcome) if outcome else None,
    }
    try:
        if outcome:
            (run / "log" / "talk.log").write_text(outcome.said, encoding="utf-8")
    except OSError as err:
        raise StepError(f"{run}/log: {(err.strerror or str(err)).lower()}", "make room") from None
    record.keep(run, done)
    return done


def new_folder(seen: GateContext) -> Path:
    try:
        run = record.folder(seen.runs, seen.recipe.name, datetime.now(timezone.utc))
        (run / "log").mkdir()
    except OSError as err:
        said = f"{seen.runs}: {(err.strerror or str(err)).lower()}"
        raise EnvcheckError(said, "name another folder: --runs") from None
    return run

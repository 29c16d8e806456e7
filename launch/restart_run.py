"""`envcheck train --restart N`: start a run again after a fault of the infrastructure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.messages import NOTHING, Message, _, verbatim
from envcheck.explain import Diagnosis, catalogue
from envcheck.job.definition import Job
from launch.run import diagnose_failure, record, run_text, states
from launch.run.launcher import TrainingEnd
from launch.runs import run_index
from launch.targets.train_request import TrainRequest
from launch.watching import stop_rules

DELAY_S = 2.0  # for a card or node that is being reset
SUCCESSOR = "restarted_as"  # key of the record
Restarter = Callable[[TrainRequest, Path], "tuple[Path, RunOutcome] | None"]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: envcheck's exit code, and the fault of the infrastructure that ended it, empty for none."""

    code: int
    fault: Message = NOTHING
    has_checkpoint: bool = False


def refuse_several_nodes(request: TrainRequest, job: Job) -> None:
    """Raise UsageError for --restart on one node of a job of several: what starts all of them restarts them.

    The launcher of a user's own job may accept fewer nodes by itself (torchrun --nnodes 1:4), which counts as one.
    """
    if request.restart and job.method.nodes > 1:
        raise UsageError(
            _(
                "--restart on one node cannot restart the other nodes: the job has {count} nodes",
                count=job.method.nodes,
            ),
            _("start all nodes with one command: add --hosts, --on slurm or --on k8s")
            if job.own is None
            else _("use a launcher that continues without the lost node, such as torchrun --nnodes MIN:MAX"),
        )


def find_fault(end: TrainingEnd, diagnoses: Sequence[Diagnosis]) -> Message:
    """Return the fault of the infrastructure that ended the run, an empty message for any other end."""
    if end.stopped:
        return _judge_rule(end.stopped.name)
    return _judge_diagnosis(diagnoses[0].name) if end.how in diagnose_failure.FAILED and diagnoses else NOTHING


def find_recorded_fault(said: Mapping[str, Any]) -> Message:
    """Return the fault of the infrastructure that ended a recorded run, as `find_fault` does."""
    stopped, diagnoses = said.get("stopped"), said.get("diagnoses")
    if isinstance(stopped, dict):
        return _judge_rule(str(stopped.get("name")))
    first = diagnoses[0] if isinstance(diagnoses, list) and diagnoses else None
    is_failed = said.get("state") == states.FAILED
    return _judge_diagnosis(str(first.get("name"))) if is_failed and isinstance(first, dict) else NOTHING


def _judge_rule(name: str) -> Message:
    rule = stop_rules.RULES.get(name.partition(".")[2])
    return verbatim(name) if rule and rule.infrastructure else NOTHING


def _judge_diagnosis(name: str) -> Message:
    known = {entry.name for entry in catalogue.load_entries() if entry.infrastructure}
    return verbatim(name) if name in known else NOTHING


def run_with_restarts(request: TrainRequest, run: Path, first: RunOutcome, restart: Restarter) -> RunOutcome:
    """Start the run again up to `request.restart` times; `restart` returns the new run and how it ended, or None."""
    outcome = first
    for number in range(1, request.restart + 1):
        if not outcome.fault:
            break
        text = _("restart {number} of {count}: {fault}", number=number, count=request.restart, fault=outcome.fault)
        run_text.print_translated(text)
        time.sleep(DELAY_S)
        try:
            done = restart(build_restart_request(request, run, outcome.has_checkpoint), run)
        except EnvcheckError as err:
            run_text.print_translated(_("cannot restart: {reason}", reason=err.message))
            break
        if done is None:
            break
        run, outcome = done
    return outcome


def build_restart_request(request: TrainRequest, run: Path, has_checkpoint: bool) -> TrainRequest:
    """Return the request of the next attempt: from the last checkpoint if there is one, on cards that are healthy.

    Cards that the user chose are kept.  A job of the user's own begins again: its command is not changed.
    """
    fresh = replace(request, added_settings=(), resumed_run="", resume_path="")
    resume = run.name if has_checkpoint and request.own_job is None else request.resume
    devices = request.devices or (None if request.own_job or request.device == "cpu" else "auto")
    return replace(fresh, resume=resume, devices=devices)


def list_restart_words(words: Sequence[str], run: str, is_own: bool, has_checkpoint: bool) -> list[str] | None:
    """Return the words of `envcheck train` for the next attempt of a run that was adopted; None if there is none left.

    `words` are those of the run.  A job of the user's own begins again: its command is not changed.
    """
    at = words.index("--") if "--" in words else len(words)
    kept, left, before = [], 0, iter(words[:at])
    for word in before:
        if word == "--restart":
            left = int(next(before, "0"))
        elif word == "--resume":
            next(before, None)
        elif word not in ("--detach", "--dashboard"):
            kept.append(word)
    if left < 1:
        return None
    more = ["--restart", str(left - 1), "--detach"]
    more += ["--resume", run] if has_checkpoint and not is_own else []
    more += [] if is_own or "--devices" in kept else ["--devices", "auto"]
    return [*more, *kept, *words[at:]]


def note_successor(run: Path, successor: Path) -> None:
    """Record that the run was restarted as another one."""
    known = run_index.read_run(run)
    if known:
        record.save_record(run, {**known.said, SUCCESSOR: successor.name})

"""`envcheck runs adopt`: supervise a run again whose supervisor was killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.model import Finding
from installers.recipes import catalogue
from launch import restart_run, run_end, run_report
from launch.gates import context
from launch.restart_run import RunOutcome
from launch.run import container_orphan, launcher, record, run_text, states
from launch.run.host_training import AdoptedTraining
from launch.runs import orphan, request_note, run_index, supervisor
from launch.runs.run_state import Run
from launch.runs.supervisor import Supervisor
from launch.targets.stage import Training
from launch.watching import choose_monitor

Repeater = Callable[[Path, Sequence[str]], int]


def adopt_run(run: Run, repeat: Repeater) -> Supervisor:
    """Start a supervisor for the orphaned run.

    `repeat` starts a training with the words of `envcheck train` typed in a folder, and returns its exit code: for
    --restart.
    """
    if run.state != states.ORPHANED:
        raise UsageError(
            _("run {id} is not orphaned (state: {state})", id=run.id, state=run.state),
            _("list the active runs with `envcheck runs`"),
        )
    return supervisor.start_supervisor(run.folder, lambda begun: _supervise_again(run, begun, repeat))


def _attach_training(run: Run) -> Training:
    """Return the training on this host or in its container."""
    if not run.get_text("container"):
        return AdoptedTraining(run.folder, run.said)
    from launch.run.container_stage import ContainerStage  # imports the docker SDK

    note = request_note.read_note(run.folder)
    found = catalogue.find_recipe(catalogue.load_all(note.recipes), run.get_text("recipe"))
    return ContainerStage(found).attach_training(run.folder)


def _supervise_again(run: Run, begun: supervisor.StartedCallback, repeat: Repeater) -> int:
    webhooks = request_note.read_webhooks(run.folder)  # deleted at the end of the run
    with context.folder_lock(run.folder.parent):  # another run may not start in the folder
        context.sign_lock(run.folder.parent)
        outcome = _supervise_locked(run, begun)
    return _restart_run(run, outcome, webhooks, repeat) if outcome.fault else outcome.code


def _restart_run(run: Run, outcome: RunOutcome, webhooks: Sequence[str], repeat: Repeater) -> int:
    """Start the run again after a fault of the infrastructure, if its --restart allows it."""
    note = request_note.read_note(run.folder)
    is_own = isinstance(run.said.get("own"), dict)
    words = restart_run.list_restart_words(note.words, run.id, is_own, outcome.has_checkpoint)
    if words is None or note.typed_in is None:
        return outcome.code
    run_text.print_translated(_("restart after {fault}", fault=outcome.fault))
    time.sleep(restart_run.DELAY_S)
    known = {path.name for path in run.folder.parent.iterdir()}
    hooks = [word for url in webhooks for word in ("--webhook", url)]
    code = repeat(note.typed_in, [*hooks, *words])
    if successor := _find_successor(run.folder.parent, known):
        restart_run.note_successor(run.folder, successor)
    return code


def _find_successor(runs: Path, known: Collection[str]) -> Path | None:
    """Return the new run that this process started; the user may have started another one meanwhile."""
    children = {child.pid for child in psutil.Process().children()}
    for folder in runs.iterdir():
        made = run_index.read_run(folder) if folder.name not in known else None
        if made and made.said.get("pid") in children:
            return folder
    return None


def _supervise_locked(run: Run, begun: supervisor.StartedCallback) -> RunOutcome:
    training = _attach_training(run)
    now = {"state": states.RUNNING, "pid": os.getpid(), "pid_started": psutil.Process().create_time()}
    adopted = [*_list_adoptions(run), record.format_time(datetime.now(timezone.utc))]
    said = {**run.said, **now, "adopted": adopted}
    record.save_record(run.folder, said)
    begun()
    mark = container_orphan.find_mark(run.folder, run.said) or str(run.folder)
    watch, cards = _read_watch_options(run), orphan.list_cards(run)
    reporter = run_report.build_adopted_reporter(run)
    deadline = watch.get("deadline_s")
    monitor = choose_monitor.build_plain_monitor(watch, run.get_text("device"), run.folder, mark, cards)
    monitor.tell = lambda warning: _report_warning(reporter, warning)
    how = launcher.Supervision(
        say=reporter.report_step,
        deadline_s=deadline if isinstance(deadline, (int, float)) else None,
        monitor=monitor,
        ago_s=_seconds_since(run.get_text("started")),
    )
    end = launcher.adopt_training(training, run.folder, mark, _list_command(run), how)
    earlier = [warning for warning in said.get("warnings", ()) if isinstance(warning, dict)]
    said["warnings"] = [*earlier, *record.list_findings(tuple(monitor.warnings.values()))]
    outcome = run_end.finish_run(run.folder, said, end)
    reporter.report_end(end.how, outcome.code, str(end.stopped.seen) if end.stopped else "")
    return outcome


def _report_warning(reporter: run_report.RunReporter, warning: Finding) -> None:
    run_text.print_warning(warning)
    reporter.report_warning(warning)


def _read_watch_options(run: Run) -> Mapping[str, Any]:
    known = run.said.get("watch")
    return known if isinstance(known, dict) else {}


def _list_adoptions(run: Run) -> list[str]:
    known = run.said.get("adopted")
    return [text for text in known if isinstance(text, str)] if isinstance(known, list) else []


def _list_command(run: Run) -> Sequence[str]:
    known = run.said.get("command")
    return [str(word) for word in known] if isinstance(known, list) else []


def _seconds_since(text: str) -> float:
    try:
        return max(0.0, time.time() - datetime.fromisoformat(text).timestamp())
    except ValueError:
        return 0.0

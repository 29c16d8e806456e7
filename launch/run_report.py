"""Reports a run to other programs while it is supervised: events and metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from envcheck.core.model import Finding, Status
from launch.gates.context import GateContext
from launch.logs.training_step import TrainingStep, encode_number
from launch.run import record, states
from launch.run.trackers import list_trackers
from launch.runs import follow, request_note
from launch.runs.run_state import Run
from launch.targets.train_request import TrainRequest
from launch.watching.metrics_file import MetricsFile, check_metrics_path
from launch.watching.run_events import EventReceivers, EventSender, check_receivers

HEAD = ("recipe", "model", "method", "device", "own")  # of a record; own: of a user's own job


@dataclass
class RunReporter:
    """Sends the events of a run and writes its metrics."""

    run: Path
    events: EventSender
    metrics: MetricsFile
    has_step: bool = field(default=False)

    def report_start(self, found: Iterable[Finding]) -> None:
        """Report the start, and the preflight checks with warnings."""
        self.events.send_event("start")
        for finding in found:
            if finding.status in (Status.WARN, Status.UNKNOWN):
                self.report_warning(finding)
        self.metrics.write_state(states.RUNNING)

    def report_warning(self, finding: Finding) -> None:
        """Report a warning about the running training."""
        self.events.send_event("warning", check=finding.name, message=str(finding.seen))

    def report_step(self, step: TrainingStep) -> None:
        """Report the first step; write the metrics now and then."""
        if not self.has_step:
            self.has_step = True
            self.events.send_event("first_step", step=_list_step_values(step))
        self.metrics.add_step(step)

    def report_end(self, how: str, code: int, reason: str = "") -> None:
        """Report why the run was stopped, if it was, and its end; `how` is a key of states.ENDS."""
        state, stop_reason = states.ENDS[how].state, states.ENDS[how].stop_reason
        if stop_reason:
            self.events.send_event("stop", state=state, stop_reason=stop_reason, reason=reason or None)
        last = self.metrics.last
        values = {"step": _list_step_values(last)} if last else {}
        self.events.send_event("end", state=state, exit_code=code, **values, trackers=list_trackers(self.run))
        self.metrics.write_state(state)
        self.events.close()
        request_note.remove_webhooks(self.run)


def _list_step_values(step: TrainingStep) -> dict[str, Any]:
    values = {name: encode_number(value) for name, value in asdict(step).items() if value is not None}
    return {name: value for name, value in values.items() if value is not None}


def check_options(request: TrainRequest) -> None:
    """Raise UsageError for receivers and files that cannot work."""
    check_receivers(EventReceivers(request.on_event, request.webhook))
    check_metrics_path(request.metrics_file)


def build_reporter(request: TrainRequest, seen: GateContext, run: Path) -> RunReporter:
    """Return the reporter of a run."""
    known = {key: value for key, value in record.list_head_values(seen).items() if key != "schema"}
    about, head = {"run": run.name, "folder": str(run), **known}, _select_texts(known)
    planned = seen.job.steps.get("max")
    request_note.save_webhooks(run, request.webhook)
    sender = EventSender(EventReceivers(request.on_event, request.webhook), about)
    return RunReporter(
        run, sender, MetricsFile(check_metrics_path(request.metrics_file), {"run": run.name, **head}, planned)
    )


def _select_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values that are texts: labels of metrics."""
    return {key: value for key, value in values.items() if isinstance(value, str)}


def build_adopted_reporter(run: Run) -> RunReporter:
    """Return the reporter of a run whose supervisor was killed: with the options of its start, in the folder where they
    were typed; its first step was reported.
    """
    note = request_note.read_note(run.folder)
    words, typed_in = note.words, note.typed_in if note.typed_in and note.typed_in.is_dir() else None
    known = {key: run.said[key] for key in HEAD if key in run.said}
    head = _select_texts(known)
    webhooks = request_note.read_webhooks(run.folder)
    receivers = EventReceivers(tuple(_list_option_values(words, "--on-event")), webhooks, typed_in)
    sender = EventSender(receivers, {"run": run.id, "folder": str(run.folder), **known})
    path = next(iter(_list_option_values(words, "--metrics-file")), None)
    there = Path(typed_in or "", path).expanduser() if path else None
    metrics = MetricsFile(there, {"run": run.id, **head}, follow.planned_steps(run))
    with contextlib.suppress(ValueError):
        metrics.began = datetime.fromisoformat(run.get_text("started")).timestamp()
    return RunReporter(run.folder, sender, metrics, has_step=True)


def _list_option_values(words: tuple[str, ...], option: str) -> list[str]:
    before = words[: words.index("--")] if "--" in words else words
    return [value for word, value in pairwise(before) if word == option]

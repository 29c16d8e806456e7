"""Show a run of this command while its supervisor runs; if this process is killed, the run goes on."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path

import click

from envcheck.core import errors
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.core.signals import handle_signals, silence_output, tolerate_lost_output
from launch import restart_run
from launch.gates.context import GateContext
from launch.run import record, run_text
from launch.run.watch import RunWatch
from launch.runs import run_index
from launch.runs.follow import UnwatchedProcesses
from launch.runs.supervisor import Supervisor
from launch.targets.train_request import TrainRequest
from launch.watching import choose_monitor
from launch.watching.monitor import Monitor

LOOK_EVERY_S = 0.2


class SupervisorOutput:
    """Copies what the supervisor prints to standard error."""

    def __init__(self, log: Path) -> None:
        self.log, self.at = log, 0

    def read_new_text(self) -> str:
        """Return what was written since the last call."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(self.at)
            data = file.read()
            self.at += len(data)
            return data.decode("utf-8", "replace")
        return ""

    def copy_new_text(self) -> None:
        """Print what was written since the last call."""
        print_text(self.read_new_text())


def print_text(text: str) -> None:
    """Print text of the supervisor."""
    if text:
        with tolerate_lost_output():
            click.echo(text, err=True, nl=False)


class ViewSignals:
    """Passes Ctrl-C and SIGTERM on to the supervisor; a closed terminal ends only the view."""

    def __init__(self, child: Supervisor) -> None:
        self.child, self.is_left = child, False

    def __call__(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            silence_output()
            self.is_left = True
        else:
            self.child.request_stop()


def view_run(request: TrainRequest, seen: GateContext, run: Path, child: Supervisor) -> int:
    """Show the progress until the supervisor ends; return its exit code."""
    output, signals = SupervisorOutput(child.log), ViewSignals(child)
    shown: Path | None = run
    with handle_signals(signals):
        early = _wait_for(child.wait_until_started, signals)
        output.copy_new_text()
        while early is None and shown is not None:
            run = shown
            shown = _show_progress(request, seen, run, child, signals, output)
            output.copy_new_text()
        while child.poll() is None and not signals.is_left:
            time.sleep(LOOK_EVERY_S)
    output.copy_new_text()
    if child.status is None:
        return errors.INTERRUPTED
    if child.status < 0:
        _report_orphan(run)
        return errors.UNDETERMINED
    if request.as_json:
        click.echo((run / record.NAME).read_text("utf-8"), nl=False)
    return child.status


def _wait_for(started: Callable[[], int | None], signals: ViewSignals) -> int | None:
    return 0 if signals.is_left else started()


def _show_progress(
    request: TrainRequest,
    seen: GateContext,
    run: Path,
    child: Supervisor,
    signals: ViewSignals,
    output: SupervisorOutput,
) -> Path | None:
    """Show a run until the supervisor ends; return the run that it was restarted as, if any."""
    successor: Path | None = None
    monitor = choose_monitor.build_monitor(request, seen, run)
    monitor.limits = {}  # the supervisor's own monitor evaluates the rules
    teller = choose_monitor.choose_progress_display(request, seen, run, monitor)
    watch = RunWatch(run / "log", UnwatchedProcesses(), teller)
    drawing: Monitor | None = monitor if monitor.show else None
    try:
        if drawing:
            drawing.start_sampling()
        while child.poll() is None and not signals.is_left and successor is None:
            text = "" if drawing else output.read_new_text()
            is_final = not drawing and _has_final_record(run)  # saved after the last step, before the end is printed
            watch.update_state(final=is_final)
            successor = _find_successor(run) if request.restart else None
            if is_final:
                teller.close()
            if drawing:
                drawing.must_end_run(watch)
            print_text(text)
            time.sleep(LOOK_EVERY_S)
        if not signals.is_left:
            watch.update_state(final=True)
    finally:
        if drawing:
            drawing.close()
        teller.close()
    return successor or (_find_successor(run) if request.restart else None)


def _find_successor(run: Path) -> Path | None:
    """Return the run that this one was restarted as; its log is read only then."""
    with contextlib.suppress(OSError):
        if _has_final_record(run):
            known = run_index.read_run(run)
            name = known.said.get(restart_run.SUCCESSOR) if known else None
            return run.parent / name if isinstance(name, str) and "/" not in name else None
    return None


def _has_final_record(run: Path) -> bool:
    return not (run / record.RESERVE).exists()  # removed with the final record


def _report_orphan(run: Path) -> None:
    """Say that the supervisor was killed, and what to do."""
    run_text.print_line(translate(_("envcheck: the supervisor of run {id} was killed", id=run.name)))
    either = _("{first}, or {second}", first=f"envcheck runs adopt {run.name}", second=f"envcheck runs stop {run.name}")
    run_text.print_line(f"  {translate(_('next: '))}{translate(either)}")

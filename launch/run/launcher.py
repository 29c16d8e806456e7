"""Start a training and supervise it to its end; all of its processes are ended in any case."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envcheck.core.model import Finding
from envcheck.core.secrets import redact_text
from envcheck.core.signals import handle_signals
from envcheck.job.command import TrainingCommand
from launch.logs.training_step import TrainingStep
from launch.run import first_failure, states
from launch.run.process_tree import list_outlived
from launch.run.watch import RunWatch
from launch.targets import checkpoint_on_stop
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import Stage, Training

LOOK_EVERY_S = 0.2
TEXT_LIMIT, TAIL_LINES = 1 << 20, 40
SAVING_ENDS = (states.BY_USER, states.BY_DEADLINE)  # endings of a healthy training, which may save a checkpoint
FAILURE_GRACE_S = 1.5  # time for the launcher to notice a failed worker; torchrun takes up to 30 s to end the others


class RunMonitor(Protocol):
    """Samples the cards of a run and decides whether to end it; `stopped` is the finding that ended it."""

    stopped: Finding | None

    def start_sampling(self) -> None:
        """Start the sampling thread."""

    def must_end_run(self, watch: RunWatch) -> bool:
        """Return whether the run must end."""

    def list_card_values(self) -> dict[str, Any]:
        """Return the values of the cards for the run record."""

    def close(self) -> None:
        """End the sampling."""


@dataclass(frozen=True)
class TrainingEnd:
    """How a training ended.

    `how` is a key of states.ENDS: unstarted if no worker started, rule if the stop rule in `stopped` ended it; `status`
    is the launcher's exit status; `cards` are values for the record; `left` are pids that survived SIGKILL, such as
    processes hanging in a driver, which still use their cards.
    """

    how: str
    status: int | None
    failed: first_failure.FirstFailure | None
    steps: tuple[TrainingStep, ...]
    peak_bytes: int
    seconds: float
    launcher_lines: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    stopped: Finding | None = None
    cards: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[int, ...] = ()


StartedCallback = Callable[[Training], None]


@dataclass(frozen=True)
class Supervision:
    """How to supervise a training: `say` gets each step, `monitor` may end it, `save_s` is the time for a checkpoint.

    `ago_s` is how long ago the training began, for a training that another process started.
    """

    say: Callable[[TrainingStep], None]
    deadline_s: float | None = None
    monitor: RunMonitor | None = None
    save_s: float = 0.0
    ago_s: float = 0.0


def launch_training(
    stage: Stage,
    command: TrainingCommand,
    clean: CleanEnvironment,
    run: Path,
    say: Callable[[TrainingStep], None],
    deadline_s: float | None = None,
    started: StartedCallback = lambda _training: None,
    monitor: RunMonitor | None = None,
) -> TrainingEnd:
    """Run the training in `command.workdir` to its end; logs go to `run`/log.

    `say` gets each step; `started` is called when the launcher runs; `monitor` may end the training.  Ctrl-C ends it
    and leaves time for a checkpoint, a second one does not.  StepError if the launcher cannot be executed.
    """
    how = Supervision(say, deadline_s, monitor, checkpoint_on_stop.save_grace_s(command))
    stop: list[int] = []  # signals are recorded, not raised: none may interrupt starting or ending processes
    with handle_signals(lambda number, _frame: stop.append(number)):
        training = stage.start_training(command, clean, run)
        started(training)
        return _supervise_training(training, run, stage.run_mark(run), command.argv, how, stop)


def adopt_training(training: Training, run: Path, mark: str, argv: Sequence[str], how: Supervision) -> TrainingEnd:
    """Supervise a training that another process started, to its end; its logs are read from their beginning."""
    stop: list[int] = []
    with handle_signals(lambda number, _frame: stop.append(number)):
        return _supervise_training(training, run, mark, tuple(argv), how, stop)


def _supervise_training(
    training: Training, run: Path, mark: str, argv: tuple[str, ...], supervision: Supervision, stop: list[int]
) -> TrainingEnd:
    began, monitor = time.monotonic() - supervision.ago_s, supervision.monitor
    deadline = None if supervision.deadline_s is None else began + supervision.deadline_s
    watch = RunWatch(run / "log", training.family, supervision.say, argv)
    if monitor:
        monitor.start_sampling()
    how = None
    try:
        how = _follow_training(training, watch, stop, deadline, monitor)
    finally:
        training.end_training(supervision.save_s if how in SAVING_ENDS else 0.0, hurry=lambda: len(stop) > 1)
        if monitor:
            monitor.close()
        watch.family.close()
    watch.update_state(final=True)
    status, text = training.poll(), _read_tail_text(run / "log" / "launcher.log")
    failed = (
        None
        if stop or status == 0 or how == states.BY_RULE
        else first_failure.find_first_failed(watch.list_workers(), text)
    )
    return TrainingEnd(
        how=how or _classify_end(status, watch.has_begun),
        status=status,
        failed=failed,
        steps=tuple(watch.steps),
        peak_bytes=watch.family.peak_bytes,
        seconds=time.monotonic() - began,
        launcher_lines=tuple(text.splitlines()[-TAIL_LINES:]),
        outputs=tuple(training.list_checkpoints()),
        stopped=monitor.stopped if monitor else None,
        cards=monitor.list_card_values() if monitor else {},
        left=list_outlived(mark),
    )


def build_argv(command: TrainingCommand) -> tuple[str, ...]:
    """Return the command line of the training.

    If scripts must be sourced (CANN's set_env.sh) or files written first, bash does so at the place of the training and
    then executes the command.
    """
    if not (command.scripts or command.files):
        return command.argv
    files = [_format_write_command(Path(path), text) for path, text in command.files.items()]
    lines = [f". {shlex.quote(script)}" for script in command.scripts]
    again = command.prepend if command.scripts else {}  # a script may have overwritten the variable
    ahead = [f'export {n}={shlex.quote(text)}"${{{n}:+:${n}}}"' for n, text in again.items()]
    return ("bash", "-c", "\n".join([*files, *lines, *ahead, 'exec "$@"']), "bash", *command.argv)


def _format_write_command(path: Path, text: str) -> str:
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    return f"mkdir -p -- {folder} && printf %s {shlex.quote(text)} > {file} || exit 1"


def _follow_training(
    training: Training, watch: RunWatch, stop: list[int], deadline: float | None, monitor: RunMonitor | None
) -> str | None:
    """Follow the training; return None if the launcher ended, else why to end it (see TrainingEnd.how)."""
    while training.poll() is None:
        if stop:
            return states.BY_USER
        if deadline is not None and time.monotonic() > deadline:
            return states.BY_DEADLINE
        watch.update_state()
        if monitor and monitor.must_end_run(watch):
            return states.BY_RULE
        if _has_failed_worker(watch):
            return states.FAILED
        watch.family.wait_for_death(LOOK_EVERY_S)
    return states.BY_USER if stop else None


def _has_failed_worker(watch: RunWatch) -> bool:
    """Whether a worker failed and the launcher still runs after the grace period."""
    fell = [when for when, code in watch.family.dead.values() if code not in (None, 0)]
    return bool(fell) and time.time() - min(fell) > FAILURE_GRACE_S


def _classify_end(status: int | None, workers: bool) -> str:
    if status == 0:
        return states.SUCCEEDED
    return states.FAILED if workers else states.UNSTARTED


def read_tail(path: Path) -> tuple[str, ...]:
    """Return the last lines of a launcher's log without secrets."""
    return tuple(_read_tail_text(path).splitlines()[-TAIL_LINES:])


def _read_tail_text(path: Path) -> str:
    """Return the end of a text file without secrets: a verbose launcher prints its whole environment."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TEXT_LIMIT))
            return redact_text(file.read(TEXT_LIMIT).decode("utf-8", "replace"))
    except OSError:
        return ""

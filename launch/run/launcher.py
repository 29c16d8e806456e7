"""Start a training and stay with it to its end; whatever happens, none of its processes outlives this."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envcheck.core.model import Finding
from envcheck.core.secrets import redact
from envcheck.core.signals import heard_by
from envcheck.job.command import TrainingCommand
from launch.logs.step import TrainingStep
from launch.run import first_failure
from launch.run.process_tree import outlived
from launch.run.watch import Watch
from launch.targets import checkpoint_on_stop
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import Stage, Training

LOOK_EVERY_S = 0.2
TEXT_LIMIT = 1 << 20
SAVED = ("interrupted", "deadline")  # endings of a training that is well
MOURNING_S = 1.5  # in which a launcher should notice that a worker failed; torchrun ends the others for half a minute


class RunMonitor(Protocol):
    """What may end a run, and looks at its cards meanwhile; `stopped` says why it had to end."""

    stopped: Finding | None

    def start(self) -> None: ...

    def check(self, watch: Watch) -> bool:
        """Whether the run must end."""

    def cards(self) -> dict[str, Any]:
        """The cards' part of the run record."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Ending:
    """`how` is finished, failed, unstarted (no worker was seen), interrupted, deadline, stopped (by a rule, which
    is told in `stopped`); `status` is the launcher's; `cards` are their peaks; `left` are the processes that outlived
    SIGKILL, as those do that hang in a driver: each holds its card on."""

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


def launch(
    stage: Stage,
    command: TrainingCommand,
    clean: CleanEnvironment,
    run: Path,
    say: Callable[[TrainingStep], None],
    deadline_s: float | None = None,
    started: Callable[[], None] = lambda: None,
    monitor: RunMonitor | None = None,
) -> Ending:
    """Runs in `command.workdir`; the launcher's own words and its workers' go to `run`/log; `started` is called when
    its processes are; `monitor` may end it.

    Ctrl-C is an ending like others; a second one leaves no time for a checkpoint.  StepError when the first program
    cannot be started at all.
    """
    began = time.monotonic()
    stop: list[int] = []  # noted and not raised: none may come in the middle of starting or ending processes
    with heard_by(lambda number, _frame: stop.append(number)):
        training = stage.start(command, clean, run)
        started()
        watch = Watch(run / "log", training.family, say, command.argv)
        if monitor:
            monitor.start()
        how = None
        try:
            how = _follow(training, watch, stop, None if deadline_s is None else began + deadline_s, monitor)
        finally:
            training.end(checkpoint_on_stop.grace_s(command) if how in SAVED else 0.0, hurry=lambda: len(stop) > 1)
            if monitor:
                monitor.close()
            watch.family.close()
    watch.look(final=True)
    status, text = training.poll(), _tail(run / "log" / "launcher.log")
    failed = None if stop or status == 0 or how == "stopped" else first_failure.first_failed(watch.workers(), text)
    return Ending(
        how=how or _how(status, watch.begun),
        status=status,
        failed=failed,
        steps=tuple(watch.steps),
        peak_bytes=watch.family.peak_bytes,
        seconds=time.monotonic() - began,
        launcher_lines=tuple(text.splitlines()[-40:]),
        outputs=tuple(training.outputs()),
        stopped=monitor.stopped if monitor else None,
        cards=monitor.cards() if monitor else {},
        left=outlived(stage.mark(run)),
    )


def argv(command: TrainingCommand) -> tuple[str, ...]:
    """The command itself; where scripts must be sourced (CANN's set_env.sh) or files be written first, inside a bash
    that does so and becomes it: it runs where the training does, on this host or in a container."""
    if not (command.scripts or command.files):
        return command.argv
    files = [_written(Path(path), text) for path, text in command.files.items()]
    lines = [f". {shlex.quote(script)}" for script in command.scripts]
    again = command.prepend if command.scripts else {}  # a script may have set the variable anew
    ahead = [f'export {n}={shlex.quote(text)}"${{{n}:+:${n}}}"' for n, text in again.items()]
    return ("bash", "-c", "\n".join([*files, *lines, *ahead, 'exec "$@"']), "bash", *command.argv)


def _written(path: Path, text: str) -> str:
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    return f"mkdir -p -- {folder} && printf %s {shlex.quote(text)} > {file} || exit 1"


def _follow(
    training: Training, watch: Watch, stop: list[int], deadline: float | None, monitor: RunMonitor | None
) -> str | None:
    """To the launcher's end: None; else how it is to end: somebody asked to stop, the deadline came, a rule."""
    while training.poll() is None:
        if stop:
            return "interrupted"
        if deadline is not None and time.monotonic() > deadline:
            return "deadline"
        watch.look()
        if monitor and monitor.check(watch):
            return "stopped"
        if _bereft(watch):
            return "failed"
        watch.family.wait(LOOK_EVERY_S)
    return "interrupted" if stop else None


def _bereft(watch: Watch) -> bool:
    """A worker failed, and the launcher has not ended in spite of it."""
    fell = [when for when, code in watch.family.dead.values() if code not in (None, 0)]
    return bool(fell) and time.time() - min(fell) > MOURNING_S


def _how(status: int | None, workers: bool) -> str:
    if status == 0:
        return "finished"
    return "failed" if workers else "unstarted"


def _tail(path: Path) -> str:
    """The end of a text file without secrets: a launcher that is told to be verbose prints its whole environment."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TEXT_LIMIT))
            return redact(file.read(TEXT_LIMIT).decode("utf-8", "replace"))
    except OSError:
        return ""

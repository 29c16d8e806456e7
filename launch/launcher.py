"""Start a training and stay with it to its end; whatever happens, none of its processes outlives this."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from envcheck.secrets import redact
from envcheck.stopping import heard_by
from launch import blame
from launch.clean import Clean
from launch.command import Command
from launch.logs.step import Step
from launch.stage import Stage, Training
from launch.watch import Watch

LOOK_EVERY_S = 0.2
TEXT_LIMIT = 1 << 20


@dataclass(frozen=True)
class Ending:
    """`how` is finished, failed, unstarted (no worker was seen), interrupted, deadline; `status` is the launcher's."""

    how: str
    status: int | None
    failed: blame.Failed | None
    steps: tuple[Step, ...]
    peak_bytes: int
    seconds: float
    launcher_lines: tuple[str, ...]
    outputs: tuple[str, ...] = ()


def launch(
    stage: Stage,
    command: Command,
    clean: Clean,
    run: Path,
    say: Callable[[Step], None],
    deadline_s: float | None = None,
    started: Callable[[], None] = lambda: None,
) -> Ending:
    """Runs in `command.workdir`; the launcher's own words and its workers' go to `run`/log; `started` is called when its processes are.

    Ctrl-C is an ending like others.  StepError when the first program cannot be started at all.
    """
    began = time.monotonic()
    stop: list[int] = []  # noted and not raised: none may come in the middle of starting or ending processes
    with heard_by(lambda number, _frame: stop.append(number)):
        training = stage.start(command, clean, run)
        started()
        watch = Watch(run / "log", training.family, say)
        try:
            ended = _follow(training, watch, stop, None if deadline_s is None else began + deadline_s)
        finally:
            training.end()
            watch.family.close()
    watch.look(final=True)
    status, text = training.poll(), _tail(run / "log" / "launcher.log")
    failed = None if stop or status == 0 else blame.first_failed(watch.workers(), text)
    return Ending(
        how=_how(bool(stop), ended, status, watch.begun),
        status=status,
        failed=failed,
        steps=tuple(watch.steps),
        peak_bytes=watch.family.peak_bytes,
        seconds=time.monotonic() - began,
        launcher_lines=tuple(text.splitlines()[-40:]),
        outputs=tuple(training.outputs()),
    )


def argv(command: Command) -> tuple[str, ...]:
    """The command itself; where scripts must be sourced first (CANN's set_env.sh), inside a bash that becomes it."""
    if not command.scripts:
        return command.argv
    lines = [f". {shlex.quote(script)}" for script in command.scripts]
    ahead = [f'export {n}={shlex.quote(text)}"${{{n}:+:${n}}}"' for n, text in command.prepend.items()]
    return ("bash", "-c", "\n".join([*lines, *ahead, 'exec "$@"']), "bash", *command.argv)


def _follow(training: Training, watch: Watch, stop: list[int], deadline: float | None) -> bool:
    """To the launcher's end: True; False when somebody asked to stop, or the deadline came first."""
    while training.poll() is None:
        if stop or (deadline is not None and time.monotonic() > deadline):
            return False
        watch.look()
        watch.family.wait(LOOK_EVERY_S)
    return True


def _how(stopped: bool, ended: bool, status: int | None, workers: bool) -> str:
    if stopped or not ended:
        return "interrupted" if stopped else "deadline"
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

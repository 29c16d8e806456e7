"""Start a training and stay with it to its end; whatever happens, none of its processes outlives this."""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from envcheck import runner
from envcheck.errors import StepError
from envcheck.secrets import redact
from envcheck.stopping import heard_by
from launch import blame
from launch.clean import Clean
from launch.command import Command
from launch.family import Family, survivors
from launch.progress import Step
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


def launch(
    command: Command, clean: Clean, run: Path, say: Callable[[Step], None], deadline_s: float | None = None
) -> Ending:
    """Runs in `command.workdir`; the launcher's own words go to `run`/launcher.log, its workers' to `run`/log.

    Ctrl-C is an ending like others.  StepError when the first program cannot be started at all.
    """
    began = time.monotonic()
    stop: list[int] = []  # noted and not raised: none may come in the middle of starting or ending processes
    with (run / "launcher.log").open("wb") as words, heard_by(lambda number, _frame: stop.append(number)):
        try:
            child = runner.start(
                argv(command),
                env=dict(clean.environment),
                cwd=Path(command.workdir or run),
                stdout=words.fileno(),
                stderr=subprocess.STDOUT,
            )
        except OSError as err:
            raise StepError(f"cannot start {argv(command)[0]}: {err.strerror or err}", f"see {run}/run.json") from None
        watch = Watch(run / "log", Family(child.pid), say)
        try:
            ended = _follow(child, watch, stop, None if deadline_s is None else began + deadline_s)
        finally:
            end_all(child, run)
            watch.family.close()
    watch.look(final=True)
    text = _tail(run / "launcher.log")
    failed = None if stop or child.returncode == 0 else blame.first_failed(watch.workers(), text)
    return Ending(
        how=_how(bool(stop), ended, child.returncode, bool(watch.tails)),
        status=child.returncode,
        failed=failed,
        steps=tuple(watch.steps),
        peak_bytes=watch.family.peak_bytes,
        seconds=time.monotonic() - began,
        launcher_lines=tuple(text.splitlines()[-40:]),
    )


def argv(command: Command) -> tuple[str, ...]:
    """The command itself; where scripts must be sourced first (CANN's set_env.sh), inside a bash that becomes it."""
    if not command.scripts:
        return command.argv
    lines = [f". {shlex.quote(script)}" for script in command.scripts]
    ahead = [f'export {n}={shlex.quote(text)}"${{{n}:+:${n}}}"' for n, text in command.prepend.items()]
    return ("bash", "-c", "\n".join([*lines, *ahead, 'exec "$@"']), "bash", *command.argv)


def end_all(child: subprocess.Popen[bytes], run: Path, grace_s: float = 8.0) -> None:
    """The launcher first, which ends its workers; then whoever is left of this run, in whatever session."""
    if child.poll() is None:
        runner.end(child, grace_s)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        left = survivors(run)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(sign)
        if left:
            psutil.wait_procs(left, timeout=3)


def _follow(child: subprocess.Popen[bytes], watch: Watch, stop: list[int], deadline: float | None) -> bool:
    """To the launcher's end: True; False when somebody asked to stop, or the deadline came first."""
    while child.poll() is None:
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

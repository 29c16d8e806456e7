"""Build the command that runs a chat program on the terminal: directly, or through a bridge into the container."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import StepError
from envcheck.core.messages import _
from envcheck.job.command import PROGRAMS, TrainingCommand
from envcheck.payload import pyz
from installers.targets.exec_target import OWN
from launch.run import launcher
from launch.run.process_tree import end_survivors
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import Stage

JOB = ".bridge.json"


@dataclass(frozen=True)
class ChatProcess:
    """A command to run on a terminal, with its environment and working directory."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path


@contextlib.contextmanager
def open_chat_process(
    stage: Stage, made: TrainingCommand, tidy: CleanEnvironment, run: Path, terminal: str
) -> Iterator[ChatProcess]:
    """Yield the command, and end all processes of the run on exit; StepError if the program is missing.

    `terminal` is the value of TERM.
    """
    environment = {**tidy.environment, "TERM": terminal}
    try:
        yield (
            _prepare_container_process(stage, made, environment, run)
            if stage.container
            else _prepare_host_process(made, environment, run)
        )
    finally:
        _clean_up(run)


def _prepare_host_process(made: TrainingCommand, environment: Mapping[str, str], run: Path) -> ChatProcess:
    words = launcher.build_argv(made)
    if not shutil.which(words[0], path=environment.get("PATH", "")):
        raise StepError(
            _("cannot start {program}: not found", program=words[0]),
            _("install it with `envcheck provision`"),
        )
    return ChatProcess(words, environment, Path(made.workdir or run))


def _prepare_container_process(
    stage: Stage, made: TrainingCommand, environment: Mapping[str, str], run: Path
) -> ChatProcess:
    """The bridge needs envcheck's own environment to find the engine; the program gets the container's."""
    _copy_programs(stage.container, made)
    job = {
        "container": stage.container,
        "argv": list(launcher.build_argv(made)),
        "environment": dict(environment),
        "workdir": made.workdir or stage.run_mark(run),
        "mark": stage.run_mark(run),
    }
    path = run / JOB
    path.touch(mode=0o600)
    path.write_text(json.dumps(job))
    return ChatProcess(
        (sys.executable, "-m", "launch.infer.bridge", str(path)), {**os.environ, **pyz.build_environment()}, run
    )


def _copy_programs(container: str, made: TrainingCommand) -> None:
    """Copy envcheck's tiny program into the container if the command runs it."""
    from installers.images import docker_engine
    from installers.targets.exec_target import ContainerTarget

    folder = next((str(Path(word).parent) for word in made.argv if word.startswith(f"{OWN}/")), "")
    names = [path.name for path in PROGRAMS.glob("tiny*") if path.is_file()] if f"{folder}/tiny.py" in made.argv else []
    if not names:
        return
    with contextlib.closing(docker_engine.open_client(docker_engine.inspect_engine())) as client:
        seat = ContainerTarget(client.api, container, "python3", Path())
        seat.run_command(("mkdir", "-p", "-m", "700", folder), timeout_s=60, env={})
        for name in names:
            seat.write_file(f"{folder}/{name}", (PROGRAMS / name).read_text())


def _clean_up(run: Path) -> None:
    """Remove the job file and end remaining processes of the run on this host, in any session."""
    (run / JOB).unlink(missing_ok=True)
    end_survivors(run)

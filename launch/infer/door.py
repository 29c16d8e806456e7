"""Where the program is started from: one command on a terminal, whether it runs here or in the recipe's container."""

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
from envcheck.job.command import PROGRAMS, TrainingCommand
from envcheck.payload import pyz
from installers.targets.exec_target import OWN
from launch.run import launcher
from launch.run.process_tree import end_survivors
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import Stage

JOB = ".door.json"


@dataclass(frozen=True)
class ChatProcess:
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path


@contextlib.contextmanager
def opened(
    stage: Stage, made: TrainingCommand, tidy: CleanEnvironment, run: Path, terminal: str
) -> Iterator[ChatProcess]:
    """`terminal` is its kind, as TERM has it; nobody of it is left afterwards.  StepError where there is no program."""
    environment = {**tidy.environment, "TERM": terminal}
    try:
        yield _box(stage, made, environment, run) if stage.container else _here(made, environment, run)
    finally:
        _end(run)


def _here(made: TrainingCommand, environment: Mapping[str, str], run: Path) -> ChatProcess:
    words = launcher.argv(made)
    if not shutil.which(words[0], path=environment.get("PATH", "")):
        raise StepError(f"cannot start {words[0]}: not found", "envcheck provision installs what the recipe names")
    return ChatProcess(words, environment, Path(made.workdir or run))


def _box(stage: Stage, made: TrainingCommand, environment: Mapping[str, str], run: Path) -> ChatProcess:
    """The bridge finds the engine by our own environment; the program has that of its container."""
    _carry(stage.container, made)
    job = {
        "container": stage.container,
        "argv": list(launcher.argv(made)),
        "environment": dict(environment),
        "workdir": made.workdir or stage.mark(run),
        "mark": stage.mark(run),
    }
    path = run / JOB
    path.touch(mode=0o600)
    path.write_text(json.dumps(job))
    return ChatProcess(
        (sys.executable, "-m", "launch.infer.bridge", str(path)), {**os.environ, **pyz.environment()}, run
    )


def _carry(container: str, made: TrainingCommand) -> None:
    """Our own program with its files, where it is the one that talks."""
    from installers.images import engine
    from installers.targets.exec_target import ContainerTarget

    folder = next((str(Path(word).parent) for word in made.argv if word.startswith(f"{OWN}/")), "")
    names = [path.name for path in PROGRAMS.glob("tiny*") if path.is_file()] if f"{folder}/tiny.py" in made.argv else []
    if not names:
        return
    with contextlib.closing(engine.connect(engine.look())) as client:
        seat = ContainerTarget(client.api, container, "python3", Path())
        seat.run(("mkdir", "-p", "-m", "700", folder), timeout_s=60, env={})
        for name in names:
            seat.write(f"{folder}/{name}", (PROGRAMS / name).read_text())


def _end(run: Path) -> None:
    """Whoever of it is left on this host, in whatever session."""
    (run / JOB).unlink(missing_ok=True)
    end_survivors(run)

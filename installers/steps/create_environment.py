"""A virtual environment of this host, made by the Python that envcheck runs with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.errors import StepError
from installers.plan.step import Step
from installers.software import packages
from installers.state import venv_parts
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import Work

DEADLINE_S = 300.0  # 4 s on two cores; ensurepip unpacks pip on a slow network disk in a minute
SIZE_MIB = 25


@dataclass(frozen=True, kw_only=True)
class CreateEnvironment(Step):
    """In the folder that all steps share."""

    name: ClassVar[str] = "environment"
    base_s: ClassVar[int] = 4  # measured on two cores


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[CreateEnvironment]:
    if isinstance(current, VenvState) and current.is_rebuilt:
        undo = f"envcheck provision --recipe {desired.recipe.name} --undo, or delete the folder"
        title = f"make a virtual environment with Python {current.host.python}"
        yield CreateEnvironment(title, "there is none yet", f"fills {current.environment.folder}", undo, SIZE_MIB)


def apply(step: CreateEnvironment, work: Work) -> str:
    argv = (work.host.interpreter, "-I", "-m", "venv", str(work.folder))
    done = work.target.run(argv, timeout_s=DEADLINE_S, env=packages.surroundings(work.target))
    packages.keep(work.own / "venv.log", f"$ {' '.join(argv)}\n{done.out}\n{done.err}")
    if done.status == 0:
        return f"Python {work.host.python}"
    if "No space left" in done.out + done.err:
        raise StepError("the disk is full", "make room, then repeat the same command")
    said = [line for line in (done.out + done.err).splitlines() if line.strip()]
    debian = "ensurepip" in done.out + done.err
    next_step = "on Debian and Ubuntu: apt-get install python3-venv" if debian else f"see {work.own / 'venv.log'}"
    raise StepError(f"python -m venv failed: {said[-1] if said else done.status}", next_step)


def verify(step: CreateEnvironment, work: Work) -> str | None:
    env = work.target.environment()
    if not env.works or not env.python:
        return f"{env.interpreter} is not there"
    return None if env.packages.get("pip") else "it has no pip"


def undo(entry: Entry, folder: Path) -> str:
    """Removes the environment with all that was put into it; other things in the folder stay."""
    for path in venv_parts.own(folder):
        venv_parts.remove(path)
    return "removed"


def script(step: CreateEnvironment, at: ScriptTarget) -> Iterator[str]:
    yield f'{shlex.quote(at.interpreter)} -I -m venv -- "$venv"'

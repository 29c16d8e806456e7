"""Add pip to a virtual environment that has none, as those of `uv venv`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, verbatim
from installers.plan.step import Step
from installers.software import pip_runner
from installers.state import undo_result
from installers.state.environment import FolderKind
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import StepContext

DEADLINE_S = 300.0
SIZE_MIB = 15


@dataclass(frozen=True, kw_only=True)
class AddPip(Step):
    """Adds pip to the environment that all steps share."""

    name: ClassVar[str] = "pip"
    base_s: ClassVar[int] = 3


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[AddPip]:
    if not isinstance(current, VenvState) or current.is_rebuilt:
        return
    env = current.environment
    if env.kind is FolderKind.ENVIRONMENT and env.works and "pip" not in env.packages:
        yield AddPip(
            _("add pip to {folder}", folder=env.folder),
            _("it has none"),
            _("installed packages"),
            verbatim("pip uninstall pip"),
            SIZE_MIB,
        )


def apply(step: AddPip, work: StepContext) -> Message:
    """Take Python's own copy of pip; without one (Debian's Python), let uv fetch it."""
    variables = {**pip_runner.pip_environment(work.target), "PATH": os.environ.get("PATH", os.defpath)}
    tries: list[tuple[str, ...]] = [(work.target.python, "-I", "-m", "ensurepip", "--default-pip")]
    if shutil.which("uv"):
        tries.append(("uv", "pip", "install", "--python", work.target.python, "pip"))
    said = ""
    for argv in tries:
        done = work.target.run_command(argv, timeout_s=DEADLINE_S, env=variables)
        if done.status == 0:
            return _("added with {command}", command=" ".join(argv[:4]))
        said += f"$ {' '.join(argv)}\n{done.out}\n{done.err}"
    pip_runner.write_log(work.state_folder / "venv.log", said)
    raise StepError(
        _("cannot add pip to {folder}", folder=work.folder),
        _("on Debian and Ubuntu, run `apt-get install python3-venv`; log: {path}", path=work.state_folder / "venv.log"),
    )


def verify(step: AddPip, work: StepContext) -> Message | None:
    return None if "pip" in work.target.read_environment().packages else _("the environment has no pip")


def undo(entry: Entry, folder: Path) -> Message:
    """Keep it: the environment is the user's."""
    return undo_result.keep(_("pip stays in {folder}", folder=folder))


def script(step: AddPip, at: ScriptTarget) -> Iterator[str]:
    yield f"{at.python_word} -I -m ensurepip --default-pip"

"""The remains of an environment that envcheck made, removed before it is made anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from installers.plan.step import Step
from installers.state import venv_parts
from installers.state.environment import FolderKind
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import Work


@dataclass(frozen=True, kw_only=True)
class ClearEnvironment(Step):
    """Of the folder that all steps share."""

    name: ClassVar[str] = "clear"
    base_s: ClassVar[int] = 1


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[ClearEnvironment]:
    if not isinstance(current, VenvState) or not current.is_rebuilt:
        return
    env = current.environment
    if env.kind is FolderKind.ENVIRONMENT or env.mark:
        why = "an earlier run did not get to its end there"
        if env.kind is FolderKind.ENVIRONMENT and not (env.torn or (env.mark and env.mark.doing)):
            why = f"its Python ({env.python or 'unknown'}) is gone or is not what the recipe takes"
        yield ClearEnvironment("clear what is there", why, f"empties {env.folder}, which envcheck made", "not needed")


def apply(step: ClearEnvironment, work: Work) -> str:
    """The plan has made sure that envcheck made it; other things in the folder stay."""
    for path in venv_parts.own(work.folder):
        venv_parts.remove(path)
    return f"emptied {work.folder}"


def verify(step: ClearEnvironment, work: Work) -> str | None:
    left = venv_parts.own(work.folder)
    return f"{left[0].name} is still there" if left else None


def undo(entry: Entry, folder: Path) -> str:
    """Nothing: what is removed does not come back, and was of use to nobody."""
    return ""


def script(step: ClearEnvironment, at: ScriptTarget) -> Iterator[str]:
    yield 'find "$venv" -mindepth 1 -maxdepth 1 ! -name .envcheck -exec rm -rf -- {} +'

"""Remove an incomplete or unusable environment of envcheck before it is recreated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.messages import NOTHING, Message, _
from installers.plan.step import Step
from installers.state import venv_parts
from installers.state.environment import FolderKind
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import StepContext


@dataclass(frozen=True, kw_only=True)
class ClearEnvironment(Step):
    """Clears the folder of the environment."""

    name: ClassVar[str] = "clear"
    base_s: ClassVar[int] = 1


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[ClearEnvironment]:
    if not isinstance(current, VenvState) or not current.is_rebuilt:
        return
    env = current.environment
    if env.kind is FolderKind.ENVIRONMENT or env.mark:
        why = _("an earlier run was interrupted")
        if env.kind is FolderKind.ENVIRONMENT and not (env.torn or (env.mark and env.mark.doing)):
            why = _(
                "its Python ({python}) is missing or not supported by the recipe", python=env.python or _("unknown")
            )
        yield ClearEnvironment(
            _("remove the old environment"),
            why,
            _("empties {folder}, which envcheck created", folder=env.folder),
            _("not needed"),
        )


def apply(step: ClearEnvironment, work: StepContext) -> Message:
    """Remove the environment, which the plan has checked to be envcheck's; other files in the folder stay."""
    for path in venv_parts.list_own(work.folder):
        venv_parts.remove_path(path)
    return _("emptied {folder}", folder=work.folder)


def verify(step: ClearEnvironment, work: StepContext) -> Message | None:
    left = venv_parts.list_own(work.folder)
    return _("{name} still exists", name=left[0].name) if left else None


def undo(entry: Entry, folder: Path) -> Message:
    """Do nothing: what was removed was unusable."""
    return NOTHING


def script(step: ClearEnvironment, at: ScriptTarget) -> Iterator[str]:
    yield 'find "$venv" -mindepth 1 -maxdepth 1 ! -name .envcheck -exec rm -rf -- {} +'

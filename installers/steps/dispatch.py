"""The kinds of steps in the order of a plan, and the calls to the module of a step's kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _
from installers.plan.step import Step
from installers.state import journal
from installers.state.journal import Entry
from installers.steps import (
    add_pip,
    checkout,
    clear_environment,
    create_environment,
    fetch_weights,
    load_image,
    pull_image,
    python_packages,
    run_container,
    source_build,
    system_library,
    verification,
)
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext

S = TypeVar("S", bound=Step)


class StepKind(Protocol[S]):
    """The functions that the module of each kind has."""

    def plan(self, desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[S]:
        """Yield the missing steps of this kind; `planned` are the steps before them.  Pure."""

    def apply(self, step: S, work: StepContext) -> Message:
        """Carry out the step; return what was done, or raise StepError with the reason."""

    def verify(self, step: S, work: StepContext) -> Message | None:
        """Return what is still wrong after the step, or None."""

    def undo(self, entry: Entry, folder: Path) -> Message:
        """Undo what a journal entry of the folder records; return the result (`undo_result.keep` if it stays)."""

    def script(self, step: S, at: ScriptTarget) -> Iterator[str]:
        """Yield the lines of a shell script that carries out the step."""


KINDS: Mapping[type[Step], StepKind[Any]] = {
    pull_image.PullImage: pull_image,
    load_image.LoadImage: load_image,
    run_container.RunContainer: run_container,
    clear_environment.ClearEnvironment: clear_environment,
    create_environment.CreateEnvironment: create_environment,
    add_pip.AddPip: add_pip,
    python_packages.InstallPackages: python_packages,
    system_library.LendLibrary: system_library,
    checkout.CloneCheckout: checkout,
    source_build.BuildSource: source_build,
    verification.VerifyEnvironment: verification,
    fetch_weights.FetchWeights: fetch_weights,
}
BY_NAME: Mapping[str, StepKind[Any]] = {step.name: kind for step, kind in KINDS.items()}


def plan_steps(desired: DesiredState, current: TargetState) -> tuple[Step, ...]:
    """Return the missing steps in order."""
    steps: list[Step] = []
    for kind in KINDS.values():
        steps.extend(kind.plan(desired, current, tuple(steps)))
    return tuple(steps)


def perform_step(step: Step, work: StepContext) -> Message:
    """Apply and verify a step; return what was done, or raise StepError with the reason."""
    kind = KINDS[type(step)]
    done = kind.apply(step, work)
    if reason := kind.verify(step, work):
        raise StepError(reason, _("see the journal: {path}", path=journal.journal_path(work.folder)))
    return done

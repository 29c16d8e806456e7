"""The kinds of steps, in the order in which a plan has them, and the one place that calls a kind by a step's class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from envcheck.core.errors import StepError
from installers.plan.step import Step
from installers.state import journal
from installers.state.journal import Entry
from installers.steps import (
    checkout,
    clear_environment,
    create_environment,
    load_image,
    pull_image,
    python_packages,
    run_container,
    source_build,
    system_library,
    verification,
    weights,
)
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

S = TypeVar("S", bound=Step)


class StepKind(Protocol[S]):
    """What each module of a kind has."""

    def plan(self, desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[S]:
        """What is missing of this kind, after the steps that are `planned` before it.  Pure."""

    def apply(self, step: S, work: Work) -> str:
        """Does it; what was done, in words.  StepError names the reason."""

    def verify(self, step: S, work: Work) -> str | None:
        """What is still wrong, or None."""

    def undo(self, entry: Entry, folder: Path) -> str:
        """Takes back what the journal of that folder says that the kind made; what became of it, in words that begin
        with "kept" where it stays."""

    def script(self, step: S, at: ScriptTarget) -> Iterator[str]:
        """The lines of a shell script that do it."""


KINDS: Mapping[type[Step], StepKind[Any]] = {
    pull_image.PullImage: pull_image,
    load_image.LoadImage: load_image,
    run_container.RunContainer: run_container,
    clear_environment.ClearEnvironment: clear_environment,
    create_environment.CreateEnvironment: create_environment,
    python_packages.InstallPackages: python_packages,
    system_library.LendLibrary: system_library,
    checkout.CloneCheckout: checkout,
    source_build.BuildSource: source_build,
    verification.VerifyEnvironment: verification,
    weights.FetchWeights: weights,
}
BY_NAME: Mapping[str, StepKind[Any]] = {step.name: kind for step, kind in KINDS.items()}


def plan_steps(desired: DesiredState, current: TargetState) -> tuple[Step, ...]:
    """What is missing, in the order in which it is to be done."""
    steps: list[Step] = []
    for kind in KINDS.values():
        steps.extend(kind.plan(desired, current, tuple(steps)))
    return tuple(steps)


def perform(step: Step, work: Work) -> str:
    """Done, and looked at at once; what was done.  StepError names the reason."""
    kind = KINDS[type(step)]
    done = kind.apply(step, work)
    if reason := kind.verify(step, work):
        raise StepError(reason, f"see {journal.path(work.folder)}")
    return done

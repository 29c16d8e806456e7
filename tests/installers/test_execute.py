"""The order of steps, with an engine whose container never keeps running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from envcheck.core.errors import StepError
from envcheck.settings.site_access import NO_SITE
from installers import execute
from installers.containers.compare import ContainerAction
from installers.containers.host_paths import ContainerPlan
from installers.plan.step import Plan
from installers.provisioner import Provisioner
from installers.recipes.recipe import Recipe
from installers.steps import dispatch
from installers.steps.run_container import RunContainer
from installers.steps.work import StepContext

START = RunContainer(
    "start the container",
    "the container is stopped",
    "starts it",
    "docker stop",
    drawn=cast("ContainerPlan", None),
    action=ContainerAction.START,
)


class FadingProvisioner:
    """Each start succeeds, and each inspection finds that the container has exited."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.recipe, self.site = folder, cast("Recipe", SimpleNamespace(name="fading")), NO_SITE

    def make_current_plan(self) -> Plan:
        return Plan("fading", self.folder, (START,), container="fading")

    def list_refusals(self) -> tuple[()]:
        return ()

    @contextmanager
    def open_work(self, lock: int, report: object) -> Iterator[StepContext]:
        supply = SimpleNamespace(bundle=None)
        yield cast(
            "StepContext",
            SimpleNamespace(terms=supply, effective_supply=supply, folder=self.folder, recipe=self.recipe),
        )


def test_a_container_that_does_not_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is started once, and the message says what happened and what to do."""
    started: list[str] = []
    monkeypatch.setattr(dispatch, "perform_step", lambda step, work: started.append(step.name) or "runs")

    with pytest.raises(StepError) as refused:
        fading = cast("Provisioner", FadingProvisioner(tmp_path / "own"))
        execute.provision_target(fading, ask=lambda plan: True, report=lambda event: None)

    assert started == ["container"]
    assert "completed, but the check still fails: the container is stopped" in refused.value.message
    assert "docker logs" in refused.value.next_step

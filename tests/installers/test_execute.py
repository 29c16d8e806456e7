"""The order of a plan's deeds, with an engine whose container never lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from envcheck.core.errors import StepError
from installers import execute
from installers.containers.compare import Action
from installers.containers.host_paths import ContainerPlan
from installers.plan.step import Plan
from installers.provisioner import Provisioner
from installers.recipes.recipe import Recipe
from installers.steps import dispatch
from installers.steps.run_container import RunContainer
from installers.steps.work import Work

START = RunContainer(
    "start the container",
    "it is there and does not run",
    "starts it",
    "docker stop",
    drawn=cast("ContainerPlan", None),
    action=Action.START,
)


class Fading:
    """Each start goes well, and each look finds that the container has ended since."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.recipe = folder, cast("Recipe", SimpleNamespace(name="fading"))

    def look(self) -> Plan:
        return Plan("fading", self.folder, (START,), boxed="fading")

    @contextmanager
    def work(self, lock: int, report: object) -> Iterator[Work]:
        terms = SimpleNamespace(bundle=None)
        yield cast("Work", SimpleNamespace(terms=terms, folder=self.folder, recipe=self.recipe))


def test_a_container_that_does_not_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started once, not for ever, and what happened is said with what to do."""
    started: list[str] = []
    monkeypatch.setattr(dispatch, "perform", lambda step, work: started.append(step.name) or "runs")

    with pytest.raises(StepError) as refused:
        fading = cast("Provisioner", Fading(tmp_path / "own"))
        execute.provision(fading, ask=lambda plan: True, report=lambda event: None)

    assert started == ["container"]
    assert "missing again at once: it is there and does not run" in refused.value.message
    assert "docker logs" in refused.value.next_step

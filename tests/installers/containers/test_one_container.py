"""The container that provision plans is the one of the job, which train shows: on every simulated machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.collect import facts, machine
from envcheck.core.facts import Facts
from envcheck.job.container import as_values
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_offer
from envcheck.simulate import machine_file, session
from envcheck.simulate.build import build
from installers import container_facts
from installers.containers.container_options import Wish
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from installers.state import state_file
from installers.state.state_file import EnvironmentState

BOXED = {recipe.name: recipe for recipe in catalogue.load_all() if recipe.container}


@pytest.fixture
def on_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts this process on a simulated machine, in a folder of its own."""

    def enter(name: str) -> None:
        (tmp_path / "machine").mkdir()
        build(machine_file.load(name), tmp_path / "machine", 0.0)
        for variable, text in session.environment(tmp_path / "machine").items():
            monkeypatch.setenv(variable, text)
        monkeypatch.chdir(tmp_path)

    return enter


def planned(
    recipe: Recipe, folder: Path, known: Facts, *, as_published: bool = False, recreate: bool = False
) -> dict[str, Any]:
    wish = Wish(recreate=recreate, as_published=as_published)
    return as_values(container_facts.observe_container(recipe, folder, wish, known).drawn.container)


def of_jobs(recipe: Recipe, known: Facts, as_published: bool) -> list[dict[str, Any]]:
    """Of each of the recipe's jobs."""
    request = JobRequest(recipe=recipe.name, as_published=as_published)
    found = [resolve_offer(request, (recipe, job), known, str(Path.cwd())).container for job in recipe.jobs]
    return [as_values(container) for container in found if container]


@pytest.mark.parametrize("name", machine_file.names())
def test_provision_and_every_job_have_one_container(name: str, on_machine: Any, tmp_path: Path) -> None:
    """Whichever job of a recipe is asked for, its container is the one that provision makes for the recipe."""
    on_machine(name)
    known = facts.gather(machine.here())
    for recipe in BOXED.values():
        for as_published in (False, True):
            made = planned(recipe, tmp_path / "notes", known, as_published=as_published)

            assert of_jobs(recipe, known, as_published) == [made] * len(recipe.jobs), recipe.name


def test_the_state_of_the_environment_decides(on_machine: Any, tmp_path: Path) -> None:
    """What the environment remembers holds for a later run, until --recreate says otherwise."""
    on_machine("atlas-800t-a2")
    recipe, notes, known = BOXED["ernie-300b-npu"], tmp_path / "notes", facts.gather(machine.here())
    state_file.save(notes, EnvironmentState(made=True, as_published=True))

    assert planned(recipe, notes, known)["privileged"]
    assert not planned(recipe, notes, known, recreate=True)["privileged"]
    assert planned(recipe, notes, known, as_published=True, recreate=True)["privileged"]

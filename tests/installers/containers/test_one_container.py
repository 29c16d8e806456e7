"""The container that provision plans is the one that train shows, on every simulated machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.collect import answer_sources, facts
from envcheck.core.facts import Facts
from envcheck.job.container_privileges import as_values
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_offer
from envcheck.simulate import machine_file, simulated_run
from envcheck.simulate.build import write_simulation
from installers import container_facts
from installers.containers.container_options import ContainerOptions
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, narrow_to_role
from installers.state import state_file
from installers.state.state_file import EnvironmentState

BOXED = {recipe.name: recipe for recipe in catalogue.load_all() if recipe.container}


@pytest.fixture
def on_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run this process on a simulated machine, in a folder of its own."""

    def enter(name: str) -> None:
        (tmp_path / "machine").mkdir()
        write_simulation(machine_file.load_machine(name), tmp_path / "machine", 0.0)
        for variable, text in simulated_run.make_environment(tmp_path / "machine").items():
            monkeypatch.setenv(variable, text)
        monkeypatch.chdir(tmp_path)

    return enter


def plan_container(
    recipe: Recipe, folder: Path, known: Facts, *, as_published: bool = False, recreate: bool = False
) -> dict[str, Any]:
    wish = ContainerOptions(recreate=recreate, as_published=as_published)
    return as_values(container_facts.observe_container(recipe, folder, wish, known).drawn.container)


def list_job_containers(recipe: Recipe, known: Facts, as_published: bool) -> list[dict[str, Any]]:
    """Return the container of each job of the recipe."""
    request = JobRequest(recipe=recipe.name, as_published=as_published)
    found = [resolve_offer(request, (recipe, job), known, str(Path.cwd())).container for job in recipe.jobs]
    return [as_values(container) for container in found if container]


@pytest.mark.parametrize("name", machine_file.list_machines())
def test_provision_and_every_job_have_one_container(name: str, on_machine: Any, tmp_path: Path) -> None:
    """All jobs of a recipe use the container that provision creates."""
    on_machine(name)
    known = facts.gather_facts(answer_sources.local_machine())
    for recipe in BOXED.values():
        for as_published in (False, True):
            ours = [
                plan_container(narrow_to_role(recipe, job), tmp_path / "notes", known, as_published=as_published)
                for job in {job.role: job for job in recipe.jobs}.values()
            ]
            theirs = list_job_containers(recipe, known, as_published)

            assert all(made in ours for made in theirs) and len(theirs) == len(recipe.jobs), recipe.name


def test_the_state_of_the_environment_decides(on_machine: Any, tmp_path: Path) -> None:
    """The recorded options are used by later runs, until --recreate."""
    on_machine("atlas-800t-a2")
    recipe, notes, known = (
        BOXED["ernie-300b-npu"],
        tmp_path / "notes",
        facts.gather_facts(answer_sources.local_machine()),
    )
    state_file.save_state(notes, EnvironmentState(made=True, as_published=True))

    assert plan_container(recipe, notes, known)["privileged"]
    assert not plan_container(recipe, notes, known, recreate=True)["privileged"]
    assert plan_container(recipe, notes, known, as_published=True, recreate=True)["privileged"]

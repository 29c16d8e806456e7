"""Every published recipe passes all gates on its simulated machine, once it is provisioned there."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.facts import Facts
from envcheck.core.model import Status
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.resolve import resolve
from envcheck.simulate import machine_file, simulated_run
from envcheck.simulate.build import write_simulation
from envcheck.simulate.driver_upgrade import upgrade_driver
from installers.recipes import catalogue
from installers.recipes.catalogue import TALKS, job_device
from installers.recipes.recipe import Recipe, RecipeJob, derive_requirements
from launch import gates, local_run
from launch.run import this_node
from launch.targets.train_request import TrainRequest

RECIPES = catalogue.load_all()
# Device → machines with enough cards for its recipes, the smallest first.
MACHINES = {
    "npu": ("atlas-800t-a2", "atlas-200t-a2-box16"),
    "iluvatar": ("bi-v150x8",),
    "nvidia": ("h200x8",),
    "xpu": ("p800x8",),
    "cpu": ("cpu",),
}
NOT_SEEN = {Status.FAIL, Status.UNKNOWN, Status.BLOCKED}


def list_jobs() -> Iterator[Any]:
    """Yield all training jobs; one of each recipe is in the fast tier."""
    for recipe in RECIPES:
        for number, job in enumerate(job for job in recipe.jobs if job.method not in TALKS):
            name = "-".join(filter(None, (recipe.name, job.method, job.role, job.variant)))
            yield pytest.param(recipe, job, id=name, marks=[pytest.mark.slow] if number else [])


def choose_machine(recipe: Recipe, job: RecipeJob) -> tuple[str, ...]:
    """Return the machine, and the driver that the job needs at least."""
    device = job_device((recipe, job))
    described = {name: machine_file.load_machine(name) for name in MACHINES[device]}
    allowed = recipe.hardware.architectures
    fitting = (
        name
        for name, machine in described.items()
        if len(machine.chips) >= (job.cards or recipe.hardware.cards or 0)
        and (not allowed or machine.host.architecture in allowed)
    )
    minimum = derive_requirements(recipe, job).driver_minimum
    return (next(fitting), *((minimum,) if minimum else ()))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that writes a machine once, and the facts of each."""
    base = tmp_path_factory.mktemp("machines")

    @functools.cache
    def write(name: str, *minimums: str) -> Path:
        folder = base / "-".join((name, *minimums))
        folder.mkdir()
        write_simulation(upgrade_driver(machine_file.load_machine(name), minimums), folder, 1e9)
        simulated_run.note_recipes(folder, [recipe.name for recipe in RECIPES])
        return folder

    return write


FACTS: dict[tuple[Path, str], Facts] = {}


@pytest.mark.parametrize(("recipe", "job"), list(list_jobs()))
def test_all_gates_pass(
    recipe: Recipe, job: RecipeJob, machines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No gate of the job fails, and none is unknown or unchecked."""
    machine = choose_machine(recipe, job)
    folder = machines(*machine)
    for variable, text in simulated_run.make_environment(folder).items():
        monkeypatch.setenv(variable, text)
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    address = machine_file.load_machine(machine[0]).host.address
    leads = job.rank in (None, 0)
    request = TrainRequest(
        recipe=recipe.name,
        method=job.method,
        variant=job.variant or None,
        node_role=job.role or None,
        device=job_device((recipe, job)),
        master=(address if leads else "10.0.9.9") if job.nodes > 1 else None,
        rank=(0 if leads else job.rank) if job.nodes > 1 else None,
        host=address if job.nodes > 1 and not leads else None,
    )
    key = (folder, request.device)
    facts = FACTS.setdefault(key, FACTS.get(key) or collect_facts_here(request))

    resolved = resolve(request, RECIPES, facts)
    request = this_node.resolve_node(request, resolved.method, facts.network)
    found = gates.evaluate_gates(local_run.collect_context(request, resolved, facts, tmp_path / "runs"))

    assert resolved.is_for_this_machine
    assert [(finding.name, finding.seen, finding.evidence) for finding in found if finding.status in NOT_SEEN] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "recipe"), (("bi-v150x8", "ernie-21b-iluvatar"), ("atlas-800t-a2", "qwen-7b-npu-swift"))
)
def test_a_provisioned_simulation(machine: str, recipe: str, tmp_path: Path) -> None:
    """`envcheck simulate --provisioned` shows a recipe with all gates open, and refuses to train."""
    ours = (sys.executable, "-m", "envcheck")
    words = ("train", "--recipe", recipe, "--method", "lora")
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(__file__).parents[3])}

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        argv = [*ours, "simulate", machine, "--provisioned", recipe, "--", *ours, *words, *more]
        return subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    assert "All preflight checks passed" in run("--gates").stdout
    refused = run()
    assert refused.returncode == 4
    assert "a simulated machine cannot run a training" in refused.stderr

"""Check a job's requirements: which are unmet, and which cannot be determined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.model import Status
from envcheck.job.suitability import judge_requirements, list_unmet
from installers.recipes import catalogue
from installers.recipes.recipe import derive_requirements
from tests.envcheck.checks.doctor_helpers import simulate_machine

RECIPES = catalogue.load_all(None)


def gather_facts(machine: str, recipe: str, method: str, *faults: str) -> Facts:
    """Return the facts of the machine, with the requirements of that recipe and method."""
    chosen = catalogue.find_recipe(RECIPES, recipe)
    job = next(job for job in chosen.jobs if job.method == method)
    with simulate_machine(machine, faults) as here:
        return facts.gather_facts(here, job.device or chosen.device, derive_requirements(chosen, job))


@pytest.mark.parametrize(
    ("machine", "recipe", "faults", "unmet"),
    [
        ("atlas-200t-a2-box16", "ernie-300b-npu", (), ()),
        ("atlas-200t-a2-box16", "ernie-300b-npu", ("card-lost",), ("cards",)),
        ("atlas-800t-a2", "ernie-300b-npu", (), ("cards", "architecture")),
        ("atlas-800t-a2", "qwen-7b-npu-swift", ("driver-old=25.5.0",), ()),
    ],
)
def test_unmet_requirements(machine: str, recipe: str, faults: tuple[str, ...], unmet: tuple[str, ...]) -> None:
    """Failed requirements are named without their area, also if a check of the machine explains them."""
    found = list_unmet(judge_requirements(gather_facts(machine, recipe, "lora", *faults)))

    assert tuple(name for name in found if name not in ("packages", "disk", "host_memory")) == unmet


def test_a_blocked_requirement_names_its_cause() -> None:
    """Without the vendor's tool the number of devices is unknown: BLOCKED by the check of the tool."""
    found = {f.name: f for f in judge_requirements(gather_facts("atlas-800t-a2", "tiny-npu", "lora", "tool-missing"))}

    assert (found["job.cards"].status, found["job.cards"].blocked_by) == (Status.BLOCKED, "driver.tool")


def test_no_job_no_requirements() -> None:
    """Without a job there are no requirements."""
    assert judge_requirements(replace(gather_facts("atlas-800t-a2", "tiny-npu", "lora"), wanted=None)) == ()

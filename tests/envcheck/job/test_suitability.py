"""The one judge of a job's requirements: what it names as unmet, and what it cannot tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.model import Status
from envcheck.job.suitability import judge_requirements, list_unmet
from installers.recipes import catalogue
from installers.recipes.recipe import wanted
from tests.envcheck.checks.doctor_helpers import simulated

RECIPES = catalogue.load_all(None)


def seen(machine: str, recipe: str, method: str, *faults: str) -> Facts:
    """The machine, with what that method of the recipe requires."""
    chosen = catalogue.by_name(RECIPES, recipe)
    job = next(job for job in chosen.jobs if job.method == method)
    with simulated(machine, faults) as here:
        return facts.gather(here, job.device or chosen.device, wanted(chosen, job))


@pytest.mark.parametrize(
    ("machine", "recipe", "faults", "unmet"),
    [
        ("atlas-200t-a2-box16", "ernie-300b-npu", (), ()),
        ("atlas-200t-a2-box16", "ernie-300b-npu", ("card-lost",), ("cards",)),
        ("atlas-800t-a2", "ernie-300b-npu", (), ("cards", "architecture")),
        ("atlas-800t-a2", "qwen-7b-npu-swift", ("driver-old=25.5.0",), ()),
    ],
)
def test_what_is_unmet(machine: str, recipe: str, faults: tuple[str, ...], unmet: tuple[str, ...]) -> None:
    """The requirements that fail are named without their area, also where a check of the machine explains it."""
    found = list_unmet(judge_requirements(seen(machine, recipe, "lora", *faults)))

    assert tuple(name for name in found if name not in ("packages", "disk", "host_memory")) == unmet


def test_what_cannot_be_judged_names_its_cause() -> None:
    """Where the vendor's tool is silent no number of devices is known: BLOCKED, by the check that tells of the tool."""
    found = {f.name: f for f in judge_requirements(seen("atlas-800t-a2", "tiny-npu", "lora", "tool-missing"))}

    assert (found["job.cards"].status, found["job.cards"].blocked_by) == (Status.BLOCKED, "driver.tool")


def test_no_job_no_requirements() -> None:
    """Without a job nothing is required."""
    assert judge_requirements(replace(seen("atlas-800t-a2", "tiny-npu", "lora"), wanted=None)) == ()

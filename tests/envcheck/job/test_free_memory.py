"""Free memory of a device is total minus used, as the tool prints it, for recipe and planner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.core.facts import Facts, MachineRequirements, VendorFacts
from envcheck.core.model import Device, Finding, Process, Status
from envcheck.job.suitability import judge_requirements
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.recipe import Hardware, Recipe, RecipeJob, derive_requirements
from launch.memory import GIB
from launch.planner import recipe_fit, verdict
from launch.planner.recipe_demand import build_demand

TOTAL, IDLE = 65536, 3482  # MiB: a 910B with 64 GiB, of which its driver uses 3.4 GiB when idle
OK, FAIL = Status.OK, Status.FAIL
CHOSEN = catalogue.find_recipe(catalogue.load_all(None), "qwen-7b-npu-swift")
LORA = next(job for job in CHOSEN.jobs if job.method == "lora")


def make_cards(*used: int, total: int = TOTAL) -> Facts:
    found = tuple(
        Device(npu=n, chip=0, name="910B3", memory_total_mib=total, memory_used_mib=each) for n, each in enumerate(used)
    )
    holders = tuple(Process(device=n, pid=100 + n, name="python3") for n, each in enumerate(used) if each > 4096)
    return Facts(vendors=(VendorFacts(VENDORS["npu"], devices=found, processes=holders),))


def judge_memory(known: Facts, demand: MachineRequirements) -> Finding:
    found = judge_requirements(replace(known, wanted=demand))
    return next(finding for finding in found if finding.name == "job.memory")


def make_requirements(gib: float | None, size_gib: float = 64) -> MachineRequirements:
    """Return the requirements of a recipe for cards of `size_gib` whose job uses `gib` of each."""
    job = RecipeJob("lora", "", ("true",), memory_gib=gib)
    return derive_requirements(Recipe("r", "", "npu", "f", ("m",), Hardware("p", 1, size_gib), (job,)), job)


@pytest.mark.parametrize(
    ("used", "demand", "status"),
    [
        (IDLE, make_requirements(60), OK),
        (IDLE, make_requirements(63), FAIL),
        (
            IDLE,
            make_requirements(None, 64),
            OK,
        ),  # the recipe requires the card size, and no other process uses memory
        (TOTAL, make_requirements(60), FAIL),
        (TOTAL, make_requirements(None, 64), FAIL),
        (TOTAL, make_requirements(None, 2), FAIL),
        (TOTAL - 1024, make_requirements(None, 2), FAIL),
        (TOTAL - 3072, make_requirements(None, 2), OK),
    ],
)
def test_by_the_recipe(used: int, demand: MachineRequirements, status: Status) -> None:
    """Memory that the driver holds on an idle device is not free; without a figure of the job the card size counts."""
    assert judge_memory(make_cards(used), demand).status is status


def test_by_the_planner() -> None:
    """The planner uses only the free memory of a card; a job that needs more does not fit."""
    plan, empty = (recipe_fit.plan_recipe(CHOSEN, LORA, make_cards(used)) for used in (IDLE, 0))
    assert plan and empty

    assert plan.usable <= (TOTAL - IDLE) * (1 << 20)
    assert empty.usable - plan.usable == pytest.approx(IDLE * (1 << 20))
    for gib, expected in ((58, verdict.FITS), (63, verdict.NOT)):
        assert verdict.judge_need(plan.job, gib * GIB, gib * GIB, plan.usable, ()) == expected


def test_a_full_card_never_fits() -> None:
    """A selected card with all memory in use fails with the process that holds it, with and without the planner, even
    if another card is free."""
    full = make_cards(TOTAL, IDLE)
    planned, _ = build_demand(CHOSEN, LORA, full, (0,))
    for demand in (planned, replace(planned, fit=None)):
        found = judge_memory(full, demand)

        assert found.status is FAIL
        assert found.seen.startswith("device 0: 0 MiB of memory free (in use by python3 (pid 100)); ")
        assert found.remedy and found.remedy.words == "Stop the processes that use the memory."


def test_any_card_that_is_free_does() -> None:
    """Without a selection the job may run on the emptiest card; a selected free card passes."""
    full = make_cards(TOTAL, IDLE)

    for selected in (None, (1,)):
        assert judge_memory(full, build_demand(CHOSEN, LORA, full, selected)[0]).status is OK


def test_a_card_that_is_too_small() -> None:
    """If the job does not fit even on an idle card, the remedy is a larger one."""
    found = judge_memory(make_cards(20000, total=32768), make_requirements(30, 32))

    assert found.status is FAIL
    assert found.remedy and found.remedy.words == "Use larger devices, or choose another --method."

"""Free memory of a device is total minus used, as the tool prints it; by the recipe and by the planner alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.core.facts import Facts, VendorFacts, Wanted
from envcheck.core.model import Device, Finding, Process, Status
from envcheck.job.suitability import judge_requirements
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.recipe import Hardware, Recipe, RecipeJob, wanted
from launch.memory import GIB
from launch.planner import fit, verdict
from launch.planner.recipe_demand import build_demand

TOTAL, IDLE = 65536, 3482  # MiB of a 910B of 64 GiB, and what its driver keeps of an idle one: 3.4 GiB
OK, FAIL = Status.OK, Status.FAIL
CHOSEN = catalogue.by_name(catalogue.load_all(None), "qwen-7b-npu-swift")
LORA = next(job for job in CHOSEN.jobs if job.method == "lora")


def cards(*used: int, total: int = TOTAL) -> Facts:
    found = tuple(
        Device(npu=n, chip=0, name="910B3", memory_total_mib=total, memory_used_mib=each) for n, each in enumerate(used)
    )
    holders = tuple(Process(device=n, pid=100 + n, name="python3") for n, each in enumerate(used) if each > 4096)
    return Facts(vendors=(VendorFacts(VENDORS["npu"], devices=found, processes=holders),))


def judged(known: Facts, demand: Wanted) -> Finding:
    found = judge_requirements(replace(known, wanted=demand))
    return next(finding for finding in found if finding.name == "job.memory")


def needs(gib: float | None, size_gib: float = 64) -> Wanted:
    """A recipe for cards of a size, with what its job takes of one."""
    job = RecipeJob("lora", "", ("true",), memory_gib=gib)
    return wanted(Recipe("r", "", "npu", "f", ("m",), Hardware("p", 1, size_gib), (job,)), job)


@pytest.mark.parametrize(
    ("used", "demand", "status"),
    [
        (IDLE, needs(60), OK),
        (IDLE, needs(63), FAIL),
        (IDLE, needs(None, 64), OK),  # the size of the card is what its recipe names, and nobody else holds any of it
        (TOTAL, needs(60), FAIL),
        (TOTAL, needs(None, 64), FAIL),
        (TOTAL, needs(None, 2), FAIL),
        (TOTAL - 1024, needs(None, 2), FAIL),
        (TOTAL - 3072, needs(None, 2), OK),
    ],
)
def test_by_the_recipe(used: int, demand: Wanted, status: Status) -> None:
    """What an idle device's driver holds is not free; without a figure of the job the size is that of a card."""
    assert judged(cards(used), demand).status is status


def test_by_the_planner() -> None:
    """What the planner may use of a card is no more than is free of it, and a job that needs more does not fit."""
    plan, empty = (fit.planned(CHOSEN, LORA, cards(used)) for used in (IDLE, 0))
    assert plan and empty

    assert plan.usable <= (TOTAL - IDLE) * (1 << 20)
    assert empty.usable - plan.usable == pytest.approx(IDLE * (1 << 20))
    for gib, expected in ((58, verdict.FITS), (63, verdict.NOT)):
        assert verdict.judge(plan.job, gib * GIB, gib * GIB, plan.usable, plan.deciding)[0] == expected


def test_a_full_card_never_fits() -> None:
    """65536 of 65536 MiB in use: no, by who holds it, with the planner and without; a free one beside it does not help
    a job that starts on the first."""
    full = cards(TOTAL, IDLE)
    planned, _ = build_demand(CHOSEN, LORA, full, (0,))
    for demand in (planned, replace(planned, fit=None)):
        found = judged(full, demand)

        assert found.status is FAIL
        assert found.seen.startswith("device 0: 0 MiB of memory free, held by python3 (pid 100); ")
        assert found.remedy and found.remedy.words == "Stop the processes that hold the memory."


def test_any_card_that_is_free_does() -> None:
    """Where no card is selected the job may run on the emptiest; a selected one that is free is not its neighbour."""
    full = cards(TOTAL, IDLE)

    for selected in (None, (1,)):
        assert judged(full, build_demand(CHOSEN, LORA, full, selected)[0]).status is OK


def test_a_card_that_is_too_small_is_nobodys_fault() -> None:
    """A job that not even an idle card holds is told to take larger ones, whoever is on it."""
    found = judged(cards(20000, total=32768), needs(30, 32))

    assert found.status is FAIL
    assert found.remedy and found.remedy.words == "Use larger devices, or choose another --method."

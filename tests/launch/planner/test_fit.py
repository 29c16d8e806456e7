"""The planner in doctor and train: job.memory, gate.memory, and the run record for --calibrate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck import checks
from envcheck.collect import facts
from envcheck.core.facts import Facts, JobFit, MachineRequirements, VendorFacts
from envcheck.core.model import Device, Status, fix
from envcheck.job.command import render_command
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, job_device
from installers.recipes.recipe import Recipe, RecipeJob, derive_requirements
from launch import gates
from launch.gates.context import GateContext
from launch.logs.training_step import TrainingStep
from launch.planner import recipe_demand, recipe_fit
from launch.run import record
from launch.run.host_stage import HostStage
from launch.run.launcher import TrainingEnd
from launch.targets.stage import StageFacts
from tests.envcheck.checks.doctor_helpers import simulate_machine

ROOT = Path(__file__).parents[3]
RECIPES = catalogue.load_all(None)
OFFERS = [(recipe, job) for recipe in RECIPES for job in recipe.jobs]
OWN = {
    ("ernie-300b-npu", "npu"): "atlas-200t-a2-box16",
    ("ernie-21b-npu", "npu"): "atlas-200t-a2-box16",
    ("ernie-0.3b-npu", "npu"): "atlas-800t-a2",
    ("ernie-0.3b-iluvatar", "iluvatar"): "bi-v150x8",
    ("ernie-21b-nvidia", "nvidia"): "h200x8",
    ("ernie-0.3b-nvidia", "nvidia"): "dev-4090x1",
    ("ernie-21b-nvidia-container", "nvidia"): "h200x8",
    ("ernie-0.3b-nvidia-container", "nvidia"): "dev-4090x1",
    ("ernie-21b-hetero-container", "iluvatar"): "bi-v150x8",
    ("ernie-21b-hetero-container", "nvidia"): "h200x8",
    ("ernie-21b-iluvatar", "iluvatar"): "bi-v150x8",
    ("ernie-21b-hetero", "iluvatar"): "bi-v150x8",
    ("ernie-21b-hetero", "nvidia"): "h200x8",
    ("qwen-7b-npu-llamafactory", "npu"): "atlas-800t-a2",
    ("qwen-7b-npu8-llamafactory", "npu"): "atlas-800t-a2",
    ("qwen-7b-npu-swift", "npu"): "atlas-800t-a2",
    ("qwen-14b-npu-swift", "npu"): "atlas-800t-a2",
    ("ernie-300b-xpu", "xpu"): "p800x8",
    ("ernie-21b-xpu", "xpu"): "p800x8",
    ("ernie-0.3b-xpu", "xpu"): "p800x8",
}
TRAINING = [
    offer for offer in OFFERS if recipe_fit.find_catalogue_model(offer[0]) and recipe_fit.find_training_method(offer[1])
]


def check_fit(recipe: Recipe, job: RecipeJob, known: Facts) -> JobFit | None:
    """Return whether the machine's cards suffice, among what the job demands."""
    return recipe_demand.build_demand(recipe, job, known)[0].fit


def find_offer(recipe: str, method: str) -> Offer:
    return next((r, j) for r, j in OFFERS if r.name == recipe and method in (j.method, j.variant))


def make_cards(count: int, gib: int, used_mib: tuple[int, ...] = (3314,)) -> Facts:
    """Return a machine with 910B3 cards; `used_mib` per card, the last figure for all others."""
    used = [*used_mib, *[used_mib[-1]] * count]
    found = tuple(
        Device(npu=n, chip=0, name="910B3", memory_total_mib=gib * 1024, memory_used_mib=used[n]) for n in range(count)
    )
    return Facts(vendors=(VendorFacts(VENDORS["npu"], devices=found),))


def make_context(recipe: Recipe, job: RecipeJob, known: Facts) -> GateContext:
    """Return the context that the memory gates need, nothing else."""
    rest: dict[str, Any] = {
        "command": render_command(recipe, job),
        "stage": HostStage(recipe, None),
        "sight": StageFacts(),
    }
    return GateContext(recipe=recipe, job=job, device="npu", runs=Path("/runs"), facts=known, **rest)


def make_id(value: object) -> str:
    return (
        "-".join((value[0].name, value[1].method, value[1].variant, value[1].role)) if isinstance(value, tuple) else ""
    )


@pytest.mark.slow
@pytest.mark.parametrize("one", TRAINING, ids=make_id)
def test_recipes_fit_their_own_machines(one: Offer) -> None:
    """Every training job of a published recipe fits the machine that it was published for, according to doctor."""
    with simulate_machine(OWN[one[0].name, job_device(one)]) as here:
        known = facts.gather_facts(here, job_device(one), derive_requirements(*one))
    found = check_fit(*one, known)
    assert found and known.wanted
    judged = list(checks.run_checks(replace(known, wanted=replace(known.wanted, fit=found)), ["job.memory"]))

    assert found.fits is True
    assert [finding.status for finding in judged] == [Status.OK]
    assert judged[0].seen.startswith("planner: ") and " GiB" in judged[0].seen


def test_planned_recipes() -> None:
    """Recipes of published systems and similar ones are planned; smoke tests, chat and inference are not."""
    assert {(one[0].name, job_device(one)) for one in TRAINING} == set(OWN)
    assert {one[1].method for one in OFFERS if one not in TRAINING} == {"chat", "infer", "lora"}
    assert all(check_fit(*one, make_cards(16, 64)) is None for one in OFFERS if one not in TRAINING)


def test_remedy_of_a_job_that_does_not_fit() -> None:
    """300B LoRA on 16 cards of 32 GiB does not fit; the remedy is the smallest change and a command for details."""
    found = check_fit(*find_offer("ernie-300b-npu", "lora"), make_cards(16, 32))
    assert found and found.remedy
    (line,) = found.remedy.commands
    done = subprocess.run([sys.executable, "-m", *line.split(), "--json"], cwd=ROOT, capture_output=True, text=True)

    assert found.fits is False
    assert found.remedy.words.startswith("Smallest change that fits: ")
    assert json.loads(done.stdout)["verdict"] == "does-not-fit"


def test_the_emptiest_cards_count() -> None:
    """If another process fills a card, a job of one card fits on another; a job of all cards does not."""
    one, all_cards = find_offer("qwen-7b-npu-swift", "lora"), find_offer("qwen-7b-npu-swift", "full")
    busy = make_cards(8, 64, (60_000, 3314))
    found, other = check_fit(*one, busy), check_fit(*all_cards, busy)

    assert (found and found.fits, other and other.fits) == (True, False)


def test_cards_that_are_cut_by_mig() -> None:
    """With MIG the remedy is to disable it, not a smaller layout."""
    found = next(one for one in OFFERS if one[0].name == "ernie-21b-nvidia" and one[1].method == "lora")
    with simulate_machine("a100x8-mig", ()) as here:
        fit = check_fit(*found, facts.gather_facts(here, "nvidia", derive_requirements(*found)))

    assert fit and fit.fits is None and fit.remedy
    assert fit.reason.endswith("the card has 80 GiB in total, but MIG is enabled")
    assert "mallest change" not in fit.remedy.words and fit.remedy.words.startswith("Disable MIG")


def test_a_rejected_layout_is_unknown() -> None:
    """A layout that the framework rejects has an unknown verdict with that reason."""
    recipe, job = find_offer("ernie-300b-npu", "lora")
    found = check_fit(recipe, replace(job, parallel={"tensor": 3, "pipeline": 2}), make_cards(16, 64))

    assert found and found.fits is None
    assert "--tp 3 does not divide" in found.reason


def test_without_memory_sizes() -> None:
    """Cards without a reported size cannot be planned; the check itself reports that."""
    silent = Facts(vendors=(VendorFacts(VENDORS["npu"], devices=(Device(npu=0, name="910B3"),)),))

    assert check_fit(*find_offer("ernie-300b-npu", "lora"), silent) is None


@pytest.mark.parametrize(("fits", "status"), [(True, Status.OK), (False, Status.FAIL), (None, Status.UNKNOWN)])
def test_three_answers(fits: bool | None, status: Status) -> None:
    """Check and gate have the status of the plan, the gate also its remedy."""
    recipe, job = find_offer("ernie-300b-npu", "lora")
    demand = MachineRequirements(
        "r", "lora", "npu", memory_gib=64, fit=JobFit(fits, "the reason", fix("The change.", "plan"))
    )
    known = replace(make_cards(16, 64), wanted=demand)
    here = make_context(recipe, job, known)
    (check,) = checks.run_checks(known, ["job.memory"])
    gate = gates.GATES["memory"](here)

    assert (check.status, gate and gate.status) == (status, status)
    assert "the reason" in check.seen
    assert gate and gate.remedy and gate.remedy.words == "The change."


def test_too_few_cards_do_not_fail_memory() -> None:
    """If all cards are free but too few, only job.cards fails."""
    demand = MachineRequirements("r", "lora", "npu", cards=16, memory_gib=64)
    known = replace(make_cards(8, 64), wanted=demand)
    found = {f.name: f.status for f in checks.run_checks(known, ["job.memory", "job.cards"])}

    assert found == {"job.cards": Status.FAIL, "job.memory": Status.OK}


def test_host_memory_still_counts() -> None:
    """A job that fits the cards still needs host memory: the host gate stays unknown."""
    recipe, job = find_offer("ernie-300b-npu", "lora")
    known = replace(
        make_cards(16, 64),
        wanted=MachineRequirements("r", "lora", "npu", host_memory_gib=559, fit=JobFit(True, "it fits")),
    )
    here = make_context(recipe, job, known)

    assert gates.GATES["memory"](here).status is Status.OK
    assert gates.GATES["host"](here).status is Status.UNKNOWN


def test_measured_is_device_memory() -> None:
    """The measured peak is the device memory of the fullest step in bytes; on the CPU there is none."""
    steps = (TrainingStep(1.0, 1, None, 2048), TrainingStep(0.9, 2, None, 1024))
    end = TrainingEnd("succeeded", 0, failed=None, steps=steps, peak_bytes=9 << 30, seconds=1.0, launcher_lines=())

    assert record.measured_peak_bytes(end, "npu") == 2 << 30
    assert record.measured_peak_bytes(end, "cpu") is None


RECIPE = """
name = "mine"
title = "LoRA of Qwen1.5-7B, by a program that prints its memory"
device = "npu"
framework = "swift"
models = ["Qwen1.5-7B"]
source = "test"
interpreter = { value = "python3", source = "test" }
[hardware]
product = "Ascend 910B"
source = "test"
cards = 1
[[jobs]]
method = "lora"
title = "LoRA on one card"
source = "test"
processes = 1
launcher = ["sh", "-c"]
arguments = ["echo \\"{'loss': 1.4, 'memory(GiB)': 21.5}\\" > {log_dir}/workerlog.0"]
outputs = ["{output}"]
"""


@pytest.mark.slow
def test_a_run_calibrates_the_planner(tmp_path: Path) -> None:
    """train records predicted and measured peak; plan --calibrate uses them."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.toml").write_text(RECIPE)
    own = ("--recipe", "mine", "--recipes", "own", "--method", "lora", "--provision", "--yes")
    envcheck = (sys.executable, "-m", "envcheck")
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    done = subprocess.run(
        [*envcheck, "simulate", "atlas-800t-a2", "--", *envcheck, "train", *own],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("runs/*/run.json")
    memory = json.loads(path.read_text())["memory"]
    more = ("--model", "qwen-7b", "--method", "lora", "--device", "npu", "--cards", "1", "--calibrate", "runs")
    planned = subprocess.run([*envcheck, "plan", *more], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    offset = (21.5 * 2**30 - memory["predicted_bytes"]) / 2**30

    assert memory["measured_bytes"] == 21.5 * 2**30
    assert 15 << 30 < memory["predicted_bytes"] < 25 << 30
    assert f"calibrated with 1 run: x 1.000 {offset:+.2f} GiB" in planned.stdout

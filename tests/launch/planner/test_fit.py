"""The planner inside doctor and train: job.memory, gate.memory, and the run record that --calibrate reads."""

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
from envcheck.core.facts import Facts, Fit, VendorFacts, Wanted
from envcheck.core.model import Device, Remedy, Status
from envcheck.job.command import render
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, device_of
from installers.recipes.recipe import Recipe, RecipeJob, wanted
from launch import gates
from launch.gates.context import GateContext
from launch.logs.step import TrainingStep
from launch.planner import fit
from launch.run import record
from launch.run.host import HostStage
from launch.run.launcher import Ending
from launch.targets.stage import StageFacts
from tests.envcheck.checks.doctor_helpers import simulated

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
    ("ernie-21b-iluvatar", "iluvatar"): "bi-v150x8",
    ("ernie-21b-hetero", "iluvatar"): "bi-v150x8",
    ("ernie-21b-hetero", "nvidia"): "h200x8",
    ("qwen-7b-npu-llamafactory", "npu"): "atlas-800t-a2",
    ("qwen-7b-npu8-llamafactory", "npu"): "atlas-800t-a2",
    ("qwen-7b-npu-swift", "npu"): "atlas-800t-a2",
}
TRAINING = [offer for offer in OFFERS if fit.model_of(offer[0]) and fit.method_of(offer[1])]


def offer(recipe: str, method: str) -> Offer:
    return next((r, j) for r, j in OFFERS if r.name == recipe and method in (j.method, j.variant))


def cards(count: int, gib: int, used_mib: tuple[int, ...] = (3314,)) -> Facts:
    """A machine of 910B3; `used_mib` of the first cards, the last figure of all others."""
    used = [*used_mib, *[used_mib[-1]] * count]
    found = tuple(
        Device(npu=n, chip=0, name="910B3", memory_total_mib=gib * 1024, memory_used_mib=used[n]) for n in range(count)
    )
    return Facts(vendors=(VendorFacts(VENDORS["npu"], devices=found),))


def situated(recipe: Recipe, job: RecipeJob, known: Facts) -> GateContext:
    """What the gates of memory look at; the rest is not there."""
    rest: dict[str, Any] = {"command": render(recipe, job), "stage": HostStage(recipe, None), "sight": StageFacts()}
    return GateContext(recipe=recipe, job=job, device="npu", runs=Path("/runs"), facts=known, **rest)


def ids(value: object) -> str:
    return (
        "-".join((value[0].name, value[1].method, value[1].variant, value[1].role)) if isinstance(value, tuple) else ""
    )


@pytest.mark.slow
@pytest.mark.parametrize("one", TRAINING, ids=ids)
def test_recipes_fit_their_own_machines(one: Offer) -> None:
    """Every training job of a published recipe fits the machine that it was published for, as doctor sees it."""
    with simulated(OWN[one[0].name, device_of(one)]) as here:
        known = facts.gather(here, device_of(one), wanted(*one))
    found = fit.fit(*one, known)
    assert found and known.wanted
    judged = list(checks.run_all(replace(known, wanted=replace(known.wanted, fit=found)), ["job.memory"]))

    assert found.fits is True
    assert [finding.status for finding in judged] == [Status.OK]
    assert "by the planner" in judged[0].seen


def test_what_is_planned() -> None:
    """The recipes of the published systems and their kin are planned; the smoke tests, chat and inference are not."""
    assert {(one[0].name, device_of(one)) for one in TRAINING} == set(OWN)
    assert {one[1].method for one in OFFERS if one not in TRAINING} == {"chat", "infer", "lora"}
    assert all(fit.fit(*one, cards(16, 64)) is None for one in OFFERS if one not in TRAINING)


def test_does_not_fit_says_what_would() -> None:
    """300B LoRA on sixteen cards of 32 GiB: no, with the smallest change and a command that tells more."""
    found = fit.fit(*offer("ernie-300b-npu", "lora"), cards(16, 32))
    assert found and found.remedy
    (line,) = found.remedy.commands
    told = subprocess.run([sys.executable, "-m", *line.split(), "--json"], cwd=ROOT, capture_output=True, text=True)

    assert found.fits is False
    assert found.remedy.words.startswith("The smallest change that fits: ")
    assert json.loads(told.stdout)["verdict"] == "does-not-fit"


def test_the_emptiest_cards_count() -> None:
    """A job of one card runs beside somebody who fills another; one of all cards does not."""
    one, all_cards = offer("qwen-7b-npu-swift", "lora"), offer("qwen-7b-npu-swift", "full")
    busy = cards(8, 64, (60_000, 3314))
    found, other = fit.fit(*one, busy), fit.fit(*all_cards, busy)

    assert (found and found.fits, other and other.fits) == (True, False)


def test_cards_that_are_cut_by_mig() -> None:
    """Nothing is advised that the job has, nor an option that train and doctor have not."""
    found = next(one for one in OFFERS if one[0].name == "ernie-21b-nvidia" and one[1].method == "lora")
    with simulated("a100x8-mig", ()) as here:
        told = fit.fit(*found, facts.gather(here, "nvidia", wanted(*found)))

    assert told and told.fits is None and told.remedy
    assert told.reason.endswith("80 GiB are a whole card's, and MIG is on")
    assert "smallest change" not in told.remedy.words and told.remedy.words.startswith("Turn MIG off")


def test_what_no_framework_accepts_is_not_told() -> None:
    """A layout that the framework would refuse is unknown, with the refusal as the reason; never a yes or a no."""
    recipe, job = offer("ernie-300b-npu", "lora")
    found = fit.fit(recipe, replace(job, parallel={"tensor": 3, "pipeline": 2}), cards(16, 64))

    assert found and found.fits is None
    assert "--tp 3 does not divide" in found.reason


def test_without_figures_nothing_is_said() -> None:
    """Cards that do not tell their memory cannot be planned for; the check then says so itself."""
    silent = Facts(vendors=(VendorFacts(VENDORS["npu"], devices=(Device(npu=0, name="910B3"),)),))

    assert fit.fit(*offer("ernie-300b-npu", "lora"), silent) is None


@pytest.mark.parametrize(("fits", "status"), [(True, Status.OK), (False, Status.FAIL), (None, Status.UNKNOWN)])
def test_three_answers(fits: bool | None, status: Status) -> None:
    """What the planner cannot tell is unknown to check and gate, what does not fit closes the gate with its remedy."""
    recipe, job = offer("ernie-300b-npu", "lora")
    said = Wanted("r", "lora", "npu", memory_gib=64, fit=Fit(fits, "the reason", Remedy("The change.", ("plan",))))
    known = replace(cards(16, 64), wanted=said)
    here = situated(recipe, job, known)
    (check,) = checks.run_all(known, ["job.memory"])
    gate = gates.GATES["memory"](here)

    assert (check.status, gate and gate.status) == (status, status)
    assert "the reason" in check.seen
    assert gate and gate.remedy and gate.remedy.words == "The change."


def test_too_few_cards_are_no_lack_of_memory() -> None:
    """Where all cards that there are are free, that a job wants more of them is told once, by job.cards."""
    said = Wanted("r", "lora", "npu", cards=16, memory_gib=64)
    known = replace(cards(8, 64), wanted=said)
    found = {f.name: f.status for f in checks.run_all(known, ["job.memory", "job.cards"])}

    assert found == {"job.cards": Status.FAIL, "job.memory": Status.OK}


def test_host_memory_still_counts() -> None:
    """Cards that fit do not open the gate of a host without the memory to load."""
    recipe, job = offer("ernie-300b-npu", "lora")
    known = replace(cards(16, 64), wanted=Wanted("r", "lora", "npu", host_memory_gib=559, fit=Fit(True, "it fits")))
    here = situated(recipe, job, known)

    assert gates.GATES["memory"](here).status is Status.OK
    assert gates.GATES["host"](here).status is Status.UNKNOWN


def test_measured_is_device_memory() -> None:
    """The fullest step's device memory in bytes; on the CPU programs tell of the host's, which is no measured peak."""
    steps = (TrainingStep(1.0, 1, None, 2048), TrainingStep(0.9, 2, None, 1024))
    end = Ending("finished", 0, failed=None, steps=steps, peak_bytes=9 << 30, seconds=1.0, launcher_lines=())

    assert record.measured(end, "npu") == 2 << 30
    assert record.measured(end, "cpu") is None


RECIPE = """
name = "mine"
title = "LoRA of Qwen1.5-7B, by a program that says what it took"
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
def test_a_run_teaches_the_planner(tmp_path: Path) -> None:
    """train records predicted and measured peak, and plan --calibrate corrects by them."""
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
    told = subprocess.run([*envcheck, "plan", *more], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    offset = (21.5 * 2**30 - memory["predicted_bytes"]) / 2**30

    assert memory["measured_bytes"] == 21.5 * 2**30
    assert 15 << 30 < memory["predicted_bytes"] < 25 << 30
    assert f"corrected by 1 runs here: x 1.000 {offset:+.2f} GiB" in told.stdout

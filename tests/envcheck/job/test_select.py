"""Which recipe a request means where the machine may choose: the table of machines and requests, and the reasons."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from envcheck.collect import facts
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.job import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.select import NoFittingRecipeError
from installers.recipes import catalogue
from tests.envcheck.checks.doctor_helpers import MACHINES, simulated

RECIPES = catalogue.load_all()
# Machine → the recipe for: nothing said, its own device named, and --model 21b.
CHOSEN = {
    "atlas-200t-a2-box16": ("ernie-300b-npu", "ernie-21b-npu"),
    "atlas-800t-a2": ("qwen-7b-npu-swift", "ernie-21b-npu"),
    "atlas-800t-a3": ("tiny-npu", "ernie-21b-npu"),
    "bi-v150x8": ("ernie-21b-iluvatar", "ernie-21b-iluvatar"),
    "h200x8": ("ernie-21b-nvidia", "ernie-21b-nvidia"),
    "a100x8-mig": ("ernie-0.3b-nvidia", "ernie-21b-nvidia"),
    "dev-4090x1": ("ernie-0.3b-nvidia", "ernie-21b-nvidia"),
}
# A device that is not there: its usual recipe, else its largest.
ELSEWHERE = {"npu": "ernie-300b-npu", "iluvatar": "ernie-21b-iluvatar", "nvidia": "ernie-21b-nvidia"}


@cache
def seen(machine: str, device: str, *faults: str) -> Facts:
    with simulated(machine, faults) as here:
        return facts.gather(here, device)


def chosen(machine: str, *faults: str, **said: Any) -> Job:
    known = seen(machine, said.get("device", "auto"), *faults)
    return resolve(JobRequest(**said, may_choose=True), RECIPES, known)


@pytest.mark.parametrize("machine", CHOSEN)
def test_what_a_machine_means(machine: str) -> None:
    """Without a word, and by the device alone: the best recipe that it can run.  By a model: that of its own cards."""
    usual, of_21b = CHOSEN[machine]
    own = seen(machine, "auto").vendors[0].name

    assert chosen(machine).recipe.name == usual
    assert chosen(machine, device=own).recipe.name == usual
    assert chosen(machine, model="21b").recipe.name == of_21b
    assert chosen(machine, model="tiny").recipe.name == f"tiny-{own}"


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "bi-v150x8"])
def test_a_number_of_cards_chooses_no_vendor(machine: str) -> None:
    """Cards that no job for this machine's devices has are refused as with --device, never looked for elsewhere."""
    own = seen(machine, "auto").vendors[0].name
    said = []
    for device in ("auto", own):
        with pytest.raises(UsageError, match="want a multiple of") as refused:
            resolve(JobRequest(model="21b", method="lora", device=device, cards=7), RECIPES, seen(machine, device))
        said.append(refused.value.message)

    assert said[0] == said[1]


def test_every_simulated_machine_is_in_the_table() -> None:
    """A new machine needs its row."""
    assert {*CHOSEN, "cpu"} == {*MACHINES}


def test_what_is_chosen_fits() -> None:
    """Nothing that only another machine has stands against the choice; a driver may have to be newer."""
    for machine in CHOSEN:
        assert not {"device", "cards", "architecture", "memory", "image_chips"} & {*chosen(machine).blocked_by}


@pytest.mark.parametrize("device", ELSEWHERE)
def test_a_device_that_is_not_there(device: str) -> None:
    """A machine without cards, or with another vendor's: the usual recipe of the device, resolved for its own host."""
    for machine in ("cpu", *CHOSEN):
        if device not in {vendor.name for vendor in seen(machine, "auto").vendors} and "800t" not in machine:
            job = chosen(machine, device=device)

            assert (job.recipe.name, job.is_for_this_machine) == (ELSEWHERE[device], False)


def test_a_processor_that_no_recipe_is_for() -> None:
    """Cards or none: where no recipe supports the processor, each says so."""
    with pytest.raises(NoFittingRecipeError, match="no recipe for this request fits this machine") as none:
        chosen("atlas-800t-a2", device="iluvatar")

    assert none.value.code == 1
    assert ("tiny-iluvatar", "recipe tiny-iluvatar supports x86_64 only; this host is aarch64") in none.value.unfit


def test_none_fits() -> None:
    """Each recipe is listed with what this machine lacks for it, and one of them can be named to see its plan."""
    with pytest.raises(NoFittingRecipeError) as none:
        chosen("atlas-800t-a3", framework="erniekit")

    assert {name for name, _ in none.value.unfit} == {"ernie-300b-npu", "ernie-21b-npu", "ernie-0.3b-npu"}
    assert "--recipe NAME\n    ernie-300b-npu: recipe ernie-300b-npu supports x86_64 only" in none.value.next_step
    assert chosen("atlas-800t-a3", recipe="ernie-300b-npu").blocked_by[:1] == ("architecture",)


def test_without_cards() -> None:
    """A machine without cards means the small model on its processor; which cards a model shall run on must be said."""
    assert chosen("cpu").recipe.name == chosen("cpu", model="tiny").recipe.name == "tiny-cpu"
    with pytest.raises(UsageError, match="3 recipes match this request, and this machine has no accelerator") as open_:
        chosen("cpu", model="21b")
    assert open_.value.next_step == "add --device iluvatar, --device npu or --device nvidia"


def test_the_roles_of_a_node() -> None:
    """In a job of mixed hardware the cards tell the role; without any it must be said."""
    assert chosen("h200x8", recipe="ernie-21b-hetero").method.role == "nvidia"
    assert chosen("bi-v150x8", recipe="ernie-21b-hetero").method.role == "iluvatar"
    assert chosen("cpu", recipe="ernie-21b-hetero", node_role="nvidia").method.role == "nvidia"
    with pytest.raises(UsageError, match="ernie-21b-hetero has several node roles") as open_:
        chosen("cpu", recipe="ernie-21b-hetero")
    assert open_.value.next_step == "add --node-role iluvatar or --node-role nvidia"


@pytest.mark.parametrize(
    ("machine", "said", "reason"),
    [
        ("atlas-200t-a2-box16", {}, "ernie-300b-npu is the usual recipe for Huawei Ascend"),
        ("h200x8", {}, "ernie-21b-nvidia is the largest recipe that fits this machine"),
        ("cpu", {"device": "nvidia"}, "ernie-21b-nvidia is the largest recipe for NVIDIA"),
        ("h200x8", {"model": "21b"}, ""),
        ("h200x8", {"recipe": "tiny-nvidia"}, ""),
        ("cpu", {}, ""),
    ],
)
def test_the_reason(machine: str, said: dict[str, str], reason: str) -> None:
    """Where several were possible it is said why this one; where one alone was meant there is nothing to say."""
    assert chosen(machine, **said).reason == reason


def test_the_reason_says_which_driver_the_largest_takes() -> None:
    """It does not fit as the machine is: the reason holds what was found and what the recipe requires."""
    reason = chosen("atlas-800t-a2", model="qwen-7b").reason

    assert reason == (
        "qwen-7b-npu-swift is the largest recipe that fits this machine once its driver is newer; "
        "driver 24.1.rc1.b030 is installed; recipe qwen-7b-npu-swift requires 25.2.0 or newer"
    )


def test_what_stands_against_the_usual_one() -> None:
    """The reason names what this machine lacks for the recipe that would have been meant."""
    against = "ernie-300b-npu does not fit: this job needs 16 devices; 8 found"

    assert against in chosen("atlas-800t-a2").reason


def test_others_memory_does_not_count() -> None:
    """Who uses a card now may be gone when the job starts: the choice stays."""
    held = ("memory-held=60000",)

    assert chosen("atlas-200t-a2-box16", *held).recipe.name == chosen("atlas-200t-a2-box16").recipe.name


def test_an_old_driver_comes_after_one_that_does() -> None:
    """Of two recipes that fit, the one that runs with this driver is meant, also before the usual one."""
    usual = catalogue.by_name(RECIPES, "ernie-300b-npu")
    newer = replace(usual, driver_minimum="99.1", name="newer")
    both = (newer, replace(usual, usual=False))
    known = seen("atlas-200t-a2-box16", "auto")

    job = resolve(JobRequest(may_choose=True), both, known)

    assert job.recipe.name == "ernie-300b-npu"
    assert "newer does not fit: driver" in job.reason


def test_as_good() -> None:
    """Recipes between which nothing decides are named; the first is taken where nobody is asked."""
    small = catalogue.by_name(RECIPES, "ernie-0.3b-nvidia")
    both = (small, replace(small, name="other-0.3b"))

    job = resolve(JobRequest(may_choose=True), both, seen("h200x8", "auto"))

    assert (job.recipe.name, job.equals) == ("ernie-0.3b-nvidia", ("other-0.3b",))
    assert job.reason.endswith("; as good: other-0.3b")

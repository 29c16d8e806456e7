"""The recipe that a request selects on each machine, and the reason."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from envcheck.collect import facts
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.definition import Job
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.job.select import NoFittingRecipeError
from installers.recipes import catalogue
from tests.envcheck.checks.doctor_helpers import MACHINES, simulate_machine

RECIPES = catalogue.load_all()
# Machine → the recipe selected without options (or by --device), and with --model 21b.
CHOSEN = {
    "atlas-200t-a2-box16": ("ernie-300b-npu", "ernie-21b-npu"),
    "atlas-800t-a2": ("qwen-7b-npu-swift", "ernie-21b-npu"),
    "atlas-800t-a3": ("tiny-npu", "ernie-21b-npu"),
    "bi-v150x8": ("ernie-21b-iluvatar", "ernie-21b-iluvatar"),
    "h200x8": ("ernie-21b-nvidia", "ernie-21b-nvidia"),
    "a100x8-mig": ("ernie-0.3b-nvidia", "ernie-21b-nvidia"),
    "dev-4090x1": ("ernie-0.3b-nvidia", "ernie-21b-nvidia"),
    "p800x8": ("ernie-21b-xpu", "ernie-21b-xpu"),
}
# A device that the machine does not have: its default recipe, else its largest.
ELSEWHERE = {"npu": "ernie-300b-npu", "iluvatar": "ernie-21b-iluvatar", "nvidia": "ernie-21b-nvidia"}


@cache
def gather_facts(machine: str, device: str, *faults: str) -> Facts:
    with simulate_machine(machine, faults) as here:
        return facts.gather_facts(here, device)


def choose_job(machine: str, *faults: str, **options: Any) -> Job:
    known = gather_facts(machine, options.get("device", "auto"), *faults)
    return resolve(JobRequest(**options, may_choose=True), RECIPES, known)


@pytest.mark.parametrize("machine", CHOSEN)
def test_recipe_of_a_machine(machine: str) -> None:
    """Without options or with --device: the best recipe that it can run.  With a model: the recipe for its cards."""
    usual, of_21b = CHOSEN[machine]
    own = gather_facts(machine, "auto").vendors[0].name

    assert choose_job(machine).recipe.name == usual
    assert choose_job(machine, device=own).recipe.name == usual
    assert choose_job(machine, model="21b").recipe.name == of_21b
    assert choose_job(machine, model="tiny").recipe.name == f"tiny-{own}"


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "bi-v150x8"])
def test_a_number_of_cards_chooses_no_vendor(machine: str) -> None:
    """An invalid number of cards is rejected as with --device; it does not select another vendor."""
    own = gather_facts(machine, "auto").vendors[0].name
    messages = []
    for device in ("auto", own):
        with pytest.raises(UsageError, match=r"7 cards; .* needs a multiple of \d+") as refused:
            resolve(
                JobRequest(model="21b", method="lora", device=device, cards=7), RECIPES, gather_facts(machine, device)
            )
        messages.append(refused.value.message)

    assert messages[0] == messages[1]


def test_every_simulated_machine_is_in_the_table() -> None:
    """Every simulated machine has a row."""
    assert {*CHOSEN, "cpu"} == {*MACHINES}


def test_the_chosen_recipe_fits() -> None:
    """The chosen recipe fails no requirement that needs another machine; the driver may be too old."""
    for machine in CHOSEN:
        assert not {"device", "cards", "architecture", "memory", "image_chips"} & {*choose_job(machine).blocked_by}


@pytest.mark.parametrize("device", ELSEWHERE)
def test_a_device_that_is_not_there(device: str) -> None:
    """Without such cards: the default recipe of the device, resolved for the recipe's own host."""
    for machine in ("cpu", *CHOSEN):
        if device not in {vendor.name for vendor in gather_facts(machine, "auto").vendors} and "800t" not in machine:
            job = choose_job(machine, device=device)

            assert (job.recipe.name, job.is_for_this_machine) == (ELSEWHERE[device], False)


def test_a_processor_that_no_recipe_is_for() -> None:
    """If no recipe supports the processor, each is listed with that reason."""
    with pytest.raises(NoFittingRecipeError, match="no recipe for this request fits this machine") as none:
        choose_job("atlas-800t-a2", device="iluvatar")

    assert none.value.code == 1
    assert ("tiny-iluvatar", "recipe tiny-iluvatar supports x86_64 only; this host is aarch64") in none.value.unfit


def test_none_fits() -> None:
    """Each recipe is listed with its failed requirements; --recipe NAME still shows its plan."""
    with pytest.raises(NoFittingRecipeError) as none:
        choose_job("atlas-800t-a3", framework="erniekit")

    assert {name for name, _ in none.value.unfit} == {"ernie-300b-npu", "ernie-21b-npu", "ernie-0.3b-npu"}
    assert "--recipe NAME\n    ernie-300b-npu: recipe ernie-300b-npu supports x86_64 only" in none.value.next_step
    assert choose_job("atlas-800t-a3", recipe="ernie-300b-npu").blocked_by[:1] == ("architecture",)


def test_without_cards() -> None:
    """A machine without cards gets the small model on its CPU; another model needs --device."""
    assert choose_job("cpu").recipe.name == choose_job("cpu", model="tiny").recipe.name == "tiny-cpu"
    with pytest.raises(UsageError, match="4 recipes match this request; no accelerator found on this machine") as open_:
        choose_job("cpu", model="21b")
    assert open_.value.next_step == "add --device iluvatar, --device npu, --device nvidia or --device xpu"


def test_the_roles_of_a_node() -> None:
    """In a job on mixed hardware the cards determine the node role; without cards it must be given."""
    assert choose_job("h200x8", recipe="ernie-21b-hetero").method.role == "nvidia"
    assert choose_job("bi-v150x8", recipe="ernie-21b-hetero").method.role == "iluvatar"
    assert choose_job("cpu", recipe="ernie-21b-hetero", node_role="nvidia").method.role == "nvidia"
    with pytest.raises(UsageError, match="ernie-21b-hetero has several node roles") as open_:
        choose_job("cpu", recipe="ernie-21b-hetero")
    assert open_.value.next_step == "add --node-role iluvatar or --node-role nvidia"


@pytest.mark.parametrize(
    ("machine", "options", "reason"),
    [
        ("atlas-200t-a2-box16", {}, "ernie-300b-npu is the default recipe for Huawei Ascend"),
        ("h200x8", {}, "ernie-21b-nvidia is the largest recipe that fits this machine"),
        ("cpu", {"device": "nvidia"}, "ernie-21b-nvidia is the largest recipe for NVIDIA"),
        ("h200x8", {"model": "21b"}, ""),
        ("h200x8", {"recipe": "tiny-nvidia"}, ""),
        ("cpu", {}, ""),
    ],
)
def test_the_reason(machine: str, options: dict[str, str], reason: str) -> None:
    """A choice between several recipes has a reason; a single match has none."""
    assert choose_job(machine, **options).reason == reason


def test_the_reason_names_the_required_driver() -> None:
    """For an outdated driver the reason contains the installed and the required version."""
    reason = choose_job("atlas-800t-a2", model="qwen-7b").reason

    assert reason == (
        "qwen-7b-npu-swift is the largest recipe that fits this machine with a newer driver; "
        "driver 24.1.rc1.b030 is installed; recipe qwen-7b-npu-swift requires 25.2.0 or newer"
    )


def test_the_reason_names_what_the_default_recipe_lacks() -> None:
    """The reason names the requirement that the default recipe fails."""
    against = "ernie-300b-npu does not fit: this job needs 16 devices; 8 found"

    assert against in choose_job("atlas-800t-a2").reason


def test_others_memory_does_not_count() -> None:
    """Memory that other processes hold now does not change the choice."""
    held = ("memory-held=60000",)

    assert choose_job("atlas-200t-a2-box16", *held).recipe.name == choose_job("atlas-200t-a2-box16").recipe.name


def test_an_old_driver_comes_after_one_that_does() -> None:
    """Of two recipes that fit, the one that runs with this driver is chosen, even before the default one."""
    usual = catalogue.find_recipe(RECIPES, "ernie-300b-npu")
    newer = replace(usual, driver_minimum="99.1", name="newer")
    both = (newer, replace(usual, usual=False))
    known = gather_facts("atlas-200t-a2-box16", "auto")

    job = resolve(JobRequest(may_choose=True), both, known)

    assert job.recipe.name == "ernie-300b-npu"
    assert "newer does not fit: driver" in job.reason


def test_equivalent_recipes() -> None:
    """Equivalent recipes are listed; the first is chosen."""
    small = catalogue.find_recipe(RECIPES, "ernie-0.3b-nvidia")
    both = (small, replace(small, name="other-0.3b"))

    job = resolve(JobRequest(may_choose=True), both, gather_facts("h200x8", "auto"))

    assert (job.recipe.name, job.equals) == ("ernie-0.3b-nvidia", ("other-0.3b",))
    assert job.reason.endswith("; equivalent: other-0.3b")

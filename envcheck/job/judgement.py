"""Evaluate one recipe's job on a machine: its cards, its image, and the requirements that are met.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from envcheck.core.facts import Facts, MachineRequirements, VendorFacts
from envcheck.core.model import Device, Finding, Status
from envcheck.job.card_ids import has_device, select_card_ids
from envcheck.job.choose_cards import CardChoice
from envcheck.job.suitability import AREA, judge_requirements
from installers.recipes.catalogue import Offer, job_device
from installers.recipes.manual_steps import find_reference
from installers.recipes.recipe import Recipe, narrow_to_role
from launch.planner import LaunchPlan
from launch.planner.recipe_demand import build_demand

# Requirements that only another machine can meet.  OF_HOST: those reported if no such card is found, where the missing
# driver may explain the rest.
OF_MACHINE = ("device", "cards", "architecture", "memory", "degrees", "image_chips")
OF_HOST = ("architecture",)
# Requirements that the user can meet by installing a newer version.
OF_DRIVER = ("driver", "firmware")


@dataclass(frozen=True)
class Judgement:
    """`devices` are the numbers of the cards on each node, `nodes` those of their device nodes; `image` is the one for
    `architecture`."""

    architecture: str
    devices: tuple[int, ...]
    nodes: tuple[int, ...]
    image: str | None
    wanted: MachineRequirements
    findings: tuple[Finding, ...]
    is_for_this_machine: bool
    plan: LaunchPlan | None

    @property
    def unmet_findings(self) -> tuple[Finding, ...]:
        """The failed requirements that only another machine can meet."""
        return self._select_failed(OF_MACHINE if self.is_for_this_machine else OF_HOST)

    @property
    def outdated_findings(self) -> tuple[Finding, ...]:
        """The failed requirements that a newer driver or firmware can meet."""
        return self._select_failed(OF_DRIVER) if self.is_for_this_machine else ()

    def _select_failed(self, names: tuple[str, ...]) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.status is Status.FAIL and f.name.removeprefix(f"{AREA}.") in names)


def judge_offer(offer: Offer, facts: Facts, choice: CardChoice | None = None) -> Judgement:
    """Evaluate a job on the machine of `facts`, or on the recipe's default host if it has no such cards.

    `choice`: the cards to use; None: the first ones.
    """
    recipe, method = narrow_to_role(*offer), offer[1]
    device = job_device(offer)
    here = has_device(facts, device)
    architecture = _choose_architecture(recipe, facts, here)
    nodes = () if device == "cpu" else select_card_ids(recipe, facts if here else Facts(), device, method.processes)
    numbers = choice.numbers if choice else nodes
    nodes, places = (choice.nodes, choice.places) if choice else (nodes, nodes)
    image = find_reference(recipe.image, architecture) if recipe.image else None
    demand, plan = build_demand(recipe, method, facts, places if here and places else None)
    demand = replace(demand, image=image)
    findings = judge_requirements(replace(facts, wanted=demand))
    return Judgement(architecture, numbers, nodes, image, demand, findings, here, plan)


def judge_idle(offer: Offer, facts: Facts) -> Judgement:
    """Evaluate a job as if no other process held device memory: whether the machine suits it at all."""
    return judge_offer(offer, replace(facts, vendors=tuple(map(_free_devices, facts.vendors))))


def _free_devices(found: VendorFacts) -> VendorFacts:
    idle = found.vendor.idle_memory_mib
    return replace(found, devices=tuple(_free_device(device, idle) for device in found.devices), processes=None)


def _free_device(device: Device, idle_mib: int) -> Device:
    used = device.memory_used_mib
    return device if used is None else replace(device, memory_used_mib=min(used, idle_mib))


def _choose_architecture(recipe: Recipe, facts: Facts, here: bool) -> str:
    """Return the host's architecture; without such cards, that of the recipe's default host."""
    known = recipe.hardware.architectures
    own = facts.host.architecture if facts.host else None
    return own or next(iter(known), "x86_64") if here or not known else known[0]

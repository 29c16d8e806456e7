"""What a machine makes of one recipe's job: its cards, its image, and which requirements are met.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from envcheck.core.facts import Facts, VendorFacts, Wanted
from envcheck.core.model import Device, Finding, Status
from envcheck.job.cards import has_device, select_card_ids
from envcheck.job.suitability import AREA, judge_requirements
from installers.recipes.by_hand import reference
from installers.recipes.catalogue import Offer, device_of
from installers.recipes.recipe import Recipe
from launch.planner import LaunchPlan
from launch.planner.recipe_demand import build_demand

# Requirements that only another machine meets; and those of them that are told where no such card is seen: what else is
# missing then may be its driver.
OF_MACHINE = ("device", "cards", "architecture", "memory", "degrees", "image_chips")
OF_HOST = ("architecture",)
# What a person installs: without a newer one the job does not run, but the machine is fit for it.
OF_DRIVER = ("driver", "firmware")


@dataclass(frozen=True)
class Judgement:
    """`devices` are the ids of the cards that it uses on each node; `image` is the one for `architecture`."""

    architecture: str
    devices: tuple[int, ...]
    image: str | None
    wanted: Wanted
    findings: tuple[Finding, ...]
    is_for_this_machine: bool
    plan: LaunchPlan | None

    @property
    def unfit(self) -> tuple[Finding, ...]:
        """The requirements that only another machine meets."""
        return self._failed(OF_MACHINE if self.is_for_this_machine else OF_HOST)

    @property
    def outdated(self) -> tuple[Finding, ...]:
        """Drivers that the job requires newer."""
        return self._failed(OF_DRIVER) if self.is_for_this_machine else ()

    def _failed(self, names: tuple[str, ...]) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.status is Status.FAIL and f.name.removeprefix(f"{AREA}.") in names)


def judge_offer(offer: Offer, facts: Facts) -> Judgement:
    """For the machine of these facts; where it has no such cards, for the recipe's default host."""
    recipe, method = offer
    device = device_of(offer)
    here = has_device(facts, device)
    architecture = _architecture(recipe, facts, here)
    ids = () if device == "cpu" else select_card_ids(recipe, facts if here else Facts(), device, method.processes)
    image = reference(recipe.image, architecture) if recipe.image else None
    demand, plan = build_demand(recipe, method, facts, ids if here and ids else None)
    demand = replace(demand, image=image)
    findings = judge_requirements(replace(facts, wanted=demand))
    return Judgement(architecture, ids, image, demand, findings, here, plan)


def judge_idle(offer: Offer, facts: Facts) -> Judgement:
    """The same, did nobody else hold memory of the cards: whether the machine is fit for the job at all."""
    return judge_offer(offer, replace(facts, vendors=tuple(map(_free_devices, facts.vendors))))


def _free_devices(found: VendorFacts) -> VendorFacts:
    idle = found.vendor.idle_memory_mib
    return replace(found, devices=tuple(_free(device, idle) for device in found.devices), processes=None)


def _free(device: Device, idle_mib: int) -> Device:
    used = device.memory_used_mib
    return device if used is None else replace(device, memory_used_mib=min(used, idle_mib))


def _architecture(recipe: Recipe, facts: Facts, here: bool) -> str:
    """The host's; without such cards, that of the recipe's default host."""
    known = recipe.hardware.architectures
    own = facts.host.architecture if facts.host else None
    return own or next(iter(known), "x86_64") if here or not known else known[0]

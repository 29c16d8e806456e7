"""A job, fully resolved for one machine: what every command means by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envcheck.core.facts import Wanted
from envcheck.core.model import Finding
from envcheck.job.container import JobContainer, as_values
from envcheck.job.judgement import OF_MACHINE
from envcheck.job.suitability import list_unmet
from envcheck.vendors import VENDORS
from installers.recipes.catalogue import device_of
from installers.recipes.recipe import Recipe, RecipeJob
from launch.planner import LaunchPlan


@dataclass(frozen=True)
class Job:
    """`method` is the recipe's own job, with the request's nodes, cards and options; `wanted` its demands, and
    `findings` whether the machine meets them.  `devices` are the ids of the cards it uses on each node, as its launcher
    counts them; `image` is the one for `architecture`, None where it runs on the host.  `is_for_this_machine` is False
    where the machine has no such card: then it is resolved for the recipe's default host.  `reason` says why this
    recipe, where nobody named one, and `equals` which others would do as well; `plan` is the planner's, None where it
    cannot tell.
    """

    recipe: Recipe
    method: RecipeJob
    wanted: Wanted
    architecture: str
    devices: tuple[int, ...]
    image: str | None
    container: JobContainer | None
    findings: tuple[Finding, ...]
    is_for_this_machine: bool = True
    reason: str = ""
    equals: tuple[str, ...] = ()
    plan: LaunchPlan | None = None

    @property
    def device(self) -> str:
        """The vendor's short name."""
        return device_of((self.recipe, self.method))

    @property
    def blocked_by(self) -> tuple[str, ...]:
        """The names of the requirements that this machine does not meet."""
        return list_unmet(self.findings)

    @property
    def needs_another_machine(self) -> bool:
        """Whether a requirement is not met that neither provisioning nor a newer driver changes."""
        return any(name in OF_MACHINE for name in self.blocked_by)

    @property
    def assumed_host(self) -> str:
        """In words, for which host it is resolved; "" for this machine."""
        if self.is_for_this_machine:
            return ""
        product = self.method.product or self.recipe.hardware.product or "the recipe's host"
        title = VENDORS[self.device].title
        return f"resolved for the recipe's host ({product}, {self.architecture}): this machine has no {title} device"

    def as_json(self) -> dict[str, Any]:
        """The document's key `job`, the same in every command on one machine."""
        return {
            "recipe": self.recipe.name,
            "model": self.recipe.models[0],
            "method": self.method.method,
            "variant": self.method.variant,
            "device": self.device,
            "architecture": self.architecture,
            "nodes": self.method.nodes,
            "cards": len(self.devices),
            "devices": list(self.devices),
            "image": self.image,
            "container": as_values(self.container) if self.container else None,
            "blocked_by": list(self.blocked_by),
        }

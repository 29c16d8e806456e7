"""A job resolved for one machine, the same for every command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envcheck.compat.image_versions import find_image_versions
from envcheck.compat.version_records import ImageVersions
from envcheck.core.facts import MachineRequirements
from envcheck.core.lint.own_job import OwnJob
from envcheck.core.messages import NOTHING, Message, _, fill
from envcheck.core.model import Finding
from envcheck.job.choose_cards import CardChoice
from envcheck.job.container_privileges import JobContainer, as_values
from envcheck.job.judgement import OF_MACHINE
from envcheck.job.suitability import list_unmet
from envcheck.vendors import VENDORS
from installers.recipes.catalogue import job_device
from installers.recipes.own_recipe import find_own_job
from installers.recipes.recipe import Recipe, RecipeJob
from launch.planner import LaunchPlan


@dataclass(frozen=True)
class Job:
    """`method` is the recipe's job with the request's nodes, cards and options.  `wanted` are its requirements,
    `findings` whether the machine meets them.  `devices` are the numbers of the cards on each node, as the vendor's
    tool counts them, and `choice` why these; None: the first ones.  `image` is the one for `architecture`, None for a
    job that runs on the host.  `is_for_this_machine` is False
    on a machine without such cards: the job is then resolved for the recipe's default host.  If no recipe was named,
    `reason` explains the choice and `equals` lists equivalent recipes.  `plan` is the memory plan, None if unknown.
    """

    recipe: Recipe
    method: RecipeJob
    wanted: MachineRequirements
    architecture: str
    devices: tuple[int, ...]
    image: str | None
    container: JobContainer | None
    findings: tuple[Finding, ...]
    is_for_this_machine: bool = True
    reason: str = ""
    equals: tuple[str, ...] = ()
    plan: LaunchPlan | None = None
    choice: CardChoice | None = None

    @property
    def own(self) -> OwnJob | None:
        """The user's own job; None for a job of a recipe."""
        return find_own_job(self.recipe)

    @property
    def device(self) -> str:
        """The vendor's short name."""
        return job_device((self.recipe, self.method))

    @property
    def blocked_by(self) -> tuple[str, ...]:
        """The names of the requirements that this machine does not meet."""
        return list_unmet(self.findings)

    @property
    def needs_another_machine(self) -> bool:
        """Whether a requirement fails that neither provisioning nor a newer driver can fix."""
        return any(name in OF_MACHINE for name in self.blocked_by)

    @property
    def assumed_host(self) -> Message:
        """Return the host for which the job is resolved, as a message; "" for this machine."""
        if self.is_for_this_machine:
            return NOTHING
        title = VENDORS[self.device].title
        if self.own is not None:
            return _(
                "resolved for a usual {title} host ({architecture}): this machine has no {title} device",
                architecture=self.architecture,
                title=title,
            )
        product = fill(self.method.product or self.recipe.hardware.product) or _("the recipe's default host")
        return _(
            "resolved for the recipe's host ({product}, {architecture}): this machine has no {title} device",
            product=product,
            architecture=self.architecture,
            title=title,
        )

    @property
    def image_versions(self) -> ImageVersions | None:
        """Return what is documented to be in the image; None without an image, or if no table lists it."""
        return find_image_versions(self.image) if self.image else None

    def as_json(self) -> dict[str, Any]:
        """Return the value of the key `job` in JSON documents, the same in every command on one machine."""
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
            "devices_reason": str(self.choice.reason) if self.choice else None,
            "image": self.image,
            "image_versions": dict(self.image_versions.holds) if self.image_versions else None,
            "container": as_values(self.container) if self.container else None,
            "blocked_by": list(self.blocked_by),
            "own": self.own.as_json() if self.own else None,
        }

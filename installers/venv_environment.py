"""Provisioning in a virtual environment of this host: how it is looked at, and what its steps share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from installers import venv_plan
from installers.bundle import weights_plan
from installers.bundle.sources import Supply
from installers.plan import accelerator, host_facts
from installers.plan.accelerator import Accelerators
from installers.recipes.recipe import Recipe
from installers.software import sources
from installers.software.builds import BuildSite
from installers.software.sources import Sources
from installers.state import environment
from installers.state.environment import FolderKind
from installers.state.progress import Report
from installers.steps.model import Plan
from installers.steps.work import Work
from installers.targets.target import VenvTarget


@dataclass(frozen=True)
class VenvProvisioner:
    """`by_hand`: the recipe has an image, and its packages are left to a person; `role` is this node's.

    With a `supply`, `recipe` is the narrowed one.  `cards` are those of this machine, where the plan is to judge them.
    """

    recipe: Recipe
    folder: Path
    by_hand: bool = False
    driver: str | None = None
    role: str = ""
    supply: Supply | None = None
    cards: Accelerators | None = None

    def look(self) -> Plan:
        """Clones and builds are looked at with the environment's own Python, so not before it is there."""
        env = environment.read(self.folder)
        ground = BuildSite(VenvTarget(self.folder), supply=self.supply)
        ready = env.kind is FolderKind.ENVIRONMENT and env.works and bool(self.recipe.checkouts)
        return venv_plan.plan(
            self.recipe,
            env,
            host_facts.read(self.folder, self.recipe.libraries, [each.directory for each in self.recipe.checkouts]),
            in_container=self.by_hand,
            driver=self.driver,
            architecture=accelerator.architecture_here() if self.by_hand else "",
            seen=(sources.unknown if ready else _unseen)(self.recipe, ground, self.role),
            role=self.role,
            supply=self.supply,
            weights=weights_plan.look(self.recipe, self.supply, Path.cwd(), boxed=False) if self.supply else None,
            cards=self.cards,
        )

    @contextlib.contextmanager
    def work(self, lock: int, report: Report) -> Iterator[Work]:
        target = VenvTarget(self.folder, lock)
        yield Work(
            self.recipe,
            self.folder,
            host_facts.read(self.folder),
            BuildSite(target, supply=self.supply),
            report,
            role=self.role,
            supply=self.supply,
        )


def _unseen(recipe: Recipe, ground: BuildSite, role: str) -> Sources:
    return sources.unseen(recipe, ground.supply, role)

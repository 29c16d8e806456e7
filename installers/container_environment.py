"""Provisioning in the recipe's container: how it is looked at, and what its steps share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from installers import container_plan, container_state
from installers.bundle import weights_plan
from installers.bundle.sources import Supply
from installers.containers.container_options import Wish
from installers.images import engine, engine_lock
from installers.plan import host_facts
from installers.plan.accelerator import Accelerators
from installers.recipes.recipe import Recipe
from installers.software.builds import BuildSite
from installers.state.progress import Report
from installers.steps.model import Plan
from installers.steps.work import Work
from installers.targets.exec_files import ContainerFiles
from installers.targets.exec_target import ContainerTarget


@dataclass(frozen=True)
class ContainerProvisioner:
    """`folder` is this host's, for our notes; `driver` the version of the cards' driver, None where nobody can tell."""

    recipe: Recipe
    folder: Path
    wish: Wish = field(default_factory=Wish)
    driver: str | None = None
    role: str = ""
    supply: Supply | None = None
    cards: Accelerators | None = None

    def look(self) -> Plan:
        sight = container_state.look(self.recipe, self.folder, self.wish, self.role, self.supply)
        weights = weights_plan.look(self.recipe, self.supply, self.wish.start, boxed=True) if self.supply else None
        return container_plan.plan(
            self.recipe, sight, self.folder, self.driver, self.role, self.supply, weights, self.cards
        )

    @contextlib.contextmanager
    def work(self, lock: int, report: Report) -> Iterator[Work]:
        """What a run that was killed left running in the container is ended first.  The lock is ours alone: what runs
        in a container does not inherit it."""
        assert self.recipe.container
        host = engine.look()
        client = engine.connect(host)
        target = ContainerTarget(client.api, self.recipe.container.name, self.recipe.interpreter, self.folder)
        try:
            with engine_lock.held(host.url, target.container):
                target.end()
                ground = BuildSite(target, ContainerFiles(target), supply=self.supply)
                here = host_facts.read(self.folder)
                terms = (client, self.role, self.supply, self.wish.seed)
                yield Work(self.recipe, self.folder, here, ground, report, *terms)
        finally:
            client.close()

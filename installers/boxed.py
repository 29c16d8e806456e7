"""Provisioning in the recipe's container: how it is looked at, and what its steps share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from installers import boxed_plan, boxed_sight, place
from installers.accelerator import Cards
from installers.bundles import weights_plan
from installers.bundles.supply import Supply
from installers.containers.inside import Inside
from installers.containers.inside_files import InsideFiles
from installers.containers.wish import Wish
from installers.images import engine, engine_lock
from installers.plan import Plan
from installers.progress import Report
from installers.recipes.recipe import Recipe
from installers.software.builds import Ground
from installers.steps import Work


@dataclass(frozen=True)
class Boxed:
    """`folder` is this host's, for our notes; `driver` the version of the cards' driver, None where nobody can tell."""

    recipe: Recipe
    folder: Path
    wish: Wish = field(default_factory=Wish)
    driver: str | None = None
    role: str = ""
    supply: Supply | None = None
    cards: Cards | None = None

    def look(self) -> Plan:
        sight = boxed_sight.look(self.recipe, self.folder, self.wish, self.role, self.supply)
        weights = weights_plan.look(self.recipe, self.supply, self.wish.start, boxed=True) if self.supply else None
        return boxed_plan.plan(
            self.recipe, sight, self.folder, self.driver, self.role, self.supply, weights, self.cards
        )

    @contextlib.contextmanager
    def work(self, lock: int, report: Report) -> Iterator[Work]:
        """What a run that was killed left running in the container is ended first.  The lock is ours alone: what runs
        in a container does not inherit it."""
        assert self.recipe.container
        host = engine.look()
        client = engine.connect(host)
        seat = Inside(client.api, self.recipe.container.name, self.recipe.interpreter, self.folder)
        try:
            with engine_lock.held(host.url, seat.container):
                seat.end()
                ground = Ground(seat, InsideFiles(seat), supply=self.supply)
                here = place.read(self.folder)
                terms = (client, self.role, self.supply, self.wish.seed)
                yield Work(self.recipe, self.folder, here, ground, report, *terms)
        finally:
            client.close()

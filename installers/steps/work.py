"""What the steps of one run share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from installers.bundle import lock_notes
from installers.bundle.sources import Supply
from installers.locks.lockfile import Wheel
from installers.plan.host_facts import HostFacts
from installers.recipes.recipe import Recipe
from installers.software.builds import BuildSite
from installers.state import progress, state_file
from installers.targets.target import Target

if TYPE_CHECKING:
    import docker


@dataclass(frozen=True)
class Work:
    """What the steps of one run share; `client` where there is a container."""

    recipe: Recipe
    folder: Path
    host: HostFacts
    ground: BuildSite
    report: progress.Report
    client: docker.DockerClient | None = None
    role: str = ""
    supply: Supply | None = None

    @property
    def terms(self) -> Supply:
        return self.supply or Supply(self.recipe)

    @property
    def target(self) -> Target:
        return self.ground.target

    @property
    def own(self) -> Path:
        return state_file.folder_of(self.folder)

    @property
    def engine(self) -> docker.DockerClient:
        """The engine's client, for steps of a container."""
        assert self.client
        return self.client

    def note_wheels(self, wheels: Sequence[Wheel]) -> None:
        """What pip is about to put in comes into the lock before it does: a run that is cut off later knows of it."""
        lock_notes.add_wheels(self.folder, self.terms.recipe, wheels)

    def say(self, text: str) -> None:
        self.report(progress.Event("say", text))

"""The context that the steps of one run share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.messages import verbatim
from installers.bundle import recipe_locks
from installers.bundle.sources import Supply
from installers.locks.lockfile import LockedWheel
from installers.plan.host_facts import HostFacts
from installers.recipes.recipe import Recipe
from installers.software.builds import BuildSite
from installers.state import progress, state_file
from installers.targets.target import Target

if TYPE_CHECKING:
    import docker


@dataclass(frozen=True)
class StepContext:
    """The context that the steps of one run share; `client` is None without a container."""

    recipe: Recipe
    folder: Path
    host: HostFacts
    ground: BuildSite
    report: progress.Report
    client: docker.DockerClient | None = None
    role: str = ""
    supply: Supply | None = None

    @property
    def effective_supply(self) -> Supply:
        """Return the supply, by default the network."""
        return self.supply or Supply(self.recipe)

    @property
    def target(self) -> Target:
        """Return where the steps run."""
        return self.ground.target

    @property
    def state_folder(self) -> Path:
        """Return the folder on this host for envcheck's files."""
        return state_file.state_folder(self.folder)

    @property
    def engine_client(self) -> docker.DockerClient:
        """Return the client of the container engine; only for steps of a container."""
        assert self.client
        return self.client

    def note_wheels(self, wheels: Sequence[LockedWheel]) -> None:
        """Record wheels in the lock before pip installs them, so that they are known after an interruption."""
        recipe_locks.add_wheels(self.folder, self.effective_supply.recipe, wheels)

    def report_text(self, text: str) -> None:
        """Report a message, or a line of a program, as progress."""
        self.report(progress.ProgressEvent("say", verbatim(text)))

"""A virtual environment of this host, as it is before a provisioning.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core import errors
from envcheck.core.units import MIB, mib
from installers.bundle.weights_plan import WeightsState
from installers.plan.host_facts import HostFacts
from installers.plan.requirement import Obstacle
from installers.plan.step import Step
from installers.recipes.recipe import Recipe
from installers.software.sources import Sources
from installers.state.environment import Environment, FolderKind, within
from installers.state.state_file import TEARING, EnvironmentState
from installers.steps.target_state import DesiredState, PackagesPlace, TargetState

SPARE_MIB = 50


@dataclass(frozen=True)
class VenvState(TargetState):
    """A virtual environment of this host; `accepted` is which Pythons the recipe takes."""

    environment: Environment
    host: HostFacts
    accepted: str
    sources: Sources = field(default_factory=Sources)
    weights: WeightsState = field(default_factory=WeightsState)

    @property
    def is_rebuilt(self) -> bool:
        """It is ours, and to be made anew, or not made yet."""
        env = self.environment
        cut = bool(env.torn) or bool(env.mark and env.mark.doing in TEARING)
        whole = env.kind is FolderKind.ENVIRONMENT and env.works and not cut and within(env.python, self.accepted)
        return env.ours and not whole

    @property
    def kept(self) -> Environment | None:
        return None if self.is_rebuilt else self.environment

    @property
    def packages(self) -> Mapping[str, str]:
        return {} if self.is_rebuilt else self.environment.packages

    @property
    def known(self) -> EnvironmentState | None:
        return self.environment.mark

    @property
    def python(self) -> str:
        return self.host.python if self.is_rebuilt else self.environment.python

    @property
    def place(self) -> PackagesPlace:
        return PackagesPlace(str(self.environment.folder), str(self.environment.interpreter))

    def why_root(self, step: Step) -> str:
        """Packages go below the environment's folder, clones and builds into folders that the recipe names."""
        folder = step.outside or str(self.environment.folder)
        return f"{folder} is root's" if folder in self.host.of_root else ""

    def satisfied(self) -> Iterator[str]:
        env = self.kept
        if env and env.kind is FolderKind.ENVIRONMENT and not self.is_torn:
            yield f"virtual environment {env.folder} with Python {env.python or 'of unknown version'}"

    def obstacles(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Obstacle]:
        yield from self._first(desired.recipe, sum(step.size_mib for step in steps) + SPARE_MIB)
        yield from self._closed(steps)

    def _closed(self, steps: Sequence[Step]) -> Iterator[Obstacle]:
        """Folders outside of the environment in which this user may not write; the environment's own is `_first`'s."""
        for folder in dict.fromkeys(step.outside for step in steps):
            if folder in self.host.closed:
                remedy = f"sudo mkdir -p {shlex.quote(folder)} && sudo chown $USER {shlex.quote(folder)}"
                yield Obstacle(f"{folder} cannot be written by this user", f"{remedy}; then repeat")

    def _first(self, recipe: Recipe, room_mib: int) -> Iterator[Obstacle]:
        """The first thing that makes it pointless to begin: each of these brings the later ones with it."""
        env, host, new = self.environment, self.host, self.is_rebuilt
        for stands, why, remedy, code in (
            (
                host.in_the_way is not None,
                f"{host.in_the_way} is a file, no folder",
                "choose another --into",
                errors.USAGE,
            ),
            (
                env.kind is FolderKind.OTHER,
                f"{env.folder} holds other things and is no virtual environment",
                "choose an empty folder or a virtual environment for --into",
                errors.USAGE,
            ),
            (
                not new and not env.works,
                f"{env.interpreter} does not lead to a Python any more",
                "make that environment anew, or choose another --into",
                errors.USAGE,
            ),
            (
                not within(self.python, recipe.python),
                f"Python {self.python or 'of unknown version'} is not one that {recipe.name} takes ({recipe.python})",
                f"install envcheck with a Python {recipe.python}"
                if new
                else f"choose an environment with Python {recipe.python} for --into",
                errors.UNFIT if new else errors.USAGE,
            ),
            (
                new and not host.makes_environments,
                f"this Python ({host.interpreter}) cannot make virtual environments",
                "on Debian and Ubuntu: apt-get install python3-venv; then repeat",
                errors.UNFIT,
            ),
            (
                not new and "pip" not in env.packages,
                f"there is no pip in {env.folder}",
                f"{env.interpreter} -m ensurepip",
                errors.UNFIT,
            ),
            (
                not host.writable,
                f"{env.folder} cannot be written",
                "choose another --into, or set ENVCHECK_HOME to a folder of yours",
                errors.USAGE,
            ),
            (
                host.free_bytes is not None and host.free_bytes < room_mib * MIB,
                f"{mib((host.free_bytes or 0) / MIB)} are free at {env.folder}, about {mib(room_mib)} are needed",
                "make room, or choose another --into",
                errors.UNFIT,
            ),
        ):
            if stands:
                yield Obstacle(why, remedy, code)
                return

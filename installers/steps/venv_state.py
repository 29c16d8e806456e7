"""The state of a virtual environment of this host before provisioning.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core import errors
from envcheck.core.messages import NOTHING, Message, _, verbatim
from envcheck.core.units import MIB, format_mib
from installers.bundle.weights_plan import WeightsState
from installers.plan.host_facts import HostFacts
from installers.plan.requirement import Obstacle
from installers.plan.step import Step
from installers.recipes.recipe import Recipe
from installers.software.sources import SourcesState
from installers.state.environment import Environment, FolderKind, is_allowed_version
from installers.state.state_file import TEARING, EnvironmentState
from installers.steps.target_state import DesiredState, PackagesPlace, TargetState

SPARE_MIB = 50


@dataclass(frozen=True)
class VenvState(TargetState):
    """A virtual environment of this host; `accepted` is the recipe's specifier for Python versions."""

    environment: Environment
    host: HostFacts
    accepted: str
    sources: SourcesState = field(default_factory=SourcesState)
    weights: WeightsState = field(default_factory=WeightsState)

    @property
    def is_rebuilt(self) -> bool:
        """Return whether envcheck will create or recreate the environment."""
        env = self.environment
        cut = bool(env.torn) or bool(env.mark and env.mark.doing in TEARING)
        whole = (
            env.kind is FolderKind.ENVIRONMENT
            and env.works
            and not cut
            and is_allowed_version(env.python, self.accepted)
        )
        return env.is_ours and not whole

    @property
    def kept_environment(self) -> Environment | None:
        return None if self.is_rebuilt else self.environment

    @property
    def installed_packages(self) -> Mapping[str, str]:
        return {} if self.is_rebuilt else self.environment.packages

    @property
    def known_state(self) -> EnvironmentState | None:
        return self.environment.mark

    @property
    def python_version(self) -> str:
        return self.host.python if self.is_rebuilt else self.environment.python

    @property
    def packages_place(self) -> PackagesPlace:
        return PackagesPlace(verbatim(str(self.environment.folder)), str(self.environment.interpreter))

    def why_root(self, step: Step) -> Message:
        """Return why root is needed to write to the environment's folder, or to the clone's or build's own folder."""
        folder = step.outside_folder or str(self.environment.folder)
        return _("{folder} is owned by root", folder=folder) if folder in self.host.of_root else NOTHING

    def list_satisfied(self) -> Iterator[Message]:
        env = self.kept_environment
        if env and env.kind is FolderKind.ENVIRONMENT and not self.is_torn:
            yield (
                _("virtual environment {folder} with Python {python}", folder=env.folder, python=env.python)
                if env.python
                else _("virtual environment {folder} with an unknown Python version", folder=env.folder)
            )

    def find_obstacles(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Obstacle]:
        yield from self._first_obstacle(desired.recipe, sum(step.size_mib for step in steps) + SPARE_MIB)
        yield from self._check_closed(steps)

    def _check_closed(self, steps: Sequence[Step]) -> Iterator[Obstacle]:
        """Yield the folders outside of the environment that this user may not write to."""
        for folder in dict.fromkeys(step.outside_folder for step in steps):
            if folder in self.host.closed:
                command = f"sudo mkdir -p {shlex.quote(folder)} && sudo chown $USER {shlex.quote(folder)}"
                yield Obstacle(
                    _("cannot write to {folder}: permission denied", folder=folder),
                    _("run `{command}`, then run the same command again", command=command),
                )

    def _first_obstacle(self, recipe: Recipe, room_mib: int) -> Iterator[Obstacle]:
        """Yield only the first problem, because it may cause the later ones."""
        env, host, new = self.environment, self.host, self.is_rebuilt
        for applies, why, remedy, code in (
            (
                host.in_the_way is not None,
                _("{path} is a file, not a folder", path=host.in_the_way),
                _("choose another folder with --into"),
                errors.USAGE,
            ),
            (
                env.kind is FolderKind.OTHER,
                _("{folder} contains other files and is not a virtual environment", folder=env.folder),
                _("choose an empty folder or a virtual environment for --into"),
                errors.USAGE,
            ),
            (
                not new and not env.works,
                _("{interpreter} is a broken link: its Python was removed", interpreter=env.interpreter),
                _("recreate that environment, or choose another folder with --into"),
                errors.USAGE,
            ),
            (
                not is_allowed_version(self.python_version, self.accepted)
                and not (new and host.chosen and host.chosen.obtain),
                _(
                    "recipe {recipe} requires Python {wanted}; found {python}",
                    python=self.python_version or _("an unknown version"),
                    recipe=recipe.name,
                    wanted=self.accepted,
                ),
                _("install Python {python}, or uv, which can get it; or name one with --python", python=self.accepted)
                if new
                else _("choose an environment with Python {python} for --into", python=self.accepted),
                errors.CHECK_FAILED if new else errors.USAGE,
            ),
            (
                new and not host.makes_environments,
                _(
                    "{interpreter} cannot create virtual environments: the module ensurepip or venv is missing",
                    interpreter=host.interpreter,
                ),
                _("on Debian and Ubuntu, run `apt-get install python3-venv`"),
                errors.CHECK_FAILED,
            ),
            (
                not host.writable,
                _("cannot write to {folder}: permission denied", folder=env.folder),
                _("choose another folder with --into, or set ENVCHECK_HOME to a folder that you can write to"),
                errors.USAGE,
            ),
            (
                host.free_bytes is not None and host.free_bytes < room_mib * MIB,
                _(
                    "not enough disk space at {folder}: about {needed} needed, {free} free",
                    free=format_mib((host.free_bytes or 0) / MIB),
                    folder=env.folder,
                    needed=format_mib(room_mib),
                ),
                _("free disk space, or choose another folder with --into"),
                errors.CHECK_FAILED,
            ),
        ):
            if applies:
                yield Obstacle(why, remedy, code)
                return

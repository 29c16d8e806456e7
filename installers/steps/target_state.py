"""The desired state and the current state of a target, from which the kinds of steps plan.  Pure.

Targets are virtual environments of this host and containers.  Each reports what is kept of its environment, what is
satisfied, and which obstacles there are; the kinds of steps find what is missing.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envcheck.core.facts import Facts
from envcheck.core.messages import Message, verbatim
from envcheck.core.model import Finding
from installers.bundle.sources import Supply
from installers.bundle.weights_plan import WeightsState
from installers.plan.requirement import Obstacle
from installers.plan.step import Step
from installers.recipes.manual_steps import ManualStep
from installers.recipes.recipe import Recipe
from installers.software.sources import SourcesState
from installers.state.environment import Environment
from installers.state.state_file import TEARING, EnvironmentState


@dataclass(frozen=True)
class DesiredState:
    """`recipe` is that of `supply`, restricted to its lock; `role` is this node's role, if the recipe has roles.

    `driver` is the installed version of the device driver, None if unknown.  `facts` are those of the machine, to
    check whether it is suitable for the recipe, None to skip that; `findings` are those of the selected job, and
    `image` its image for this architecture.
    """

    recipe: Recipe
    supply: Supply
    role: str = ""
    driver: str | None = None
    facts: Facts | None = None
    findings: tuple[Finding, ...] = ()
    image: str | None = None


def locate_command(command: Message, current: TargetState) -> Message:
    """Return a command about paths of the target as it is run on this host: in the container, if there is one."""
    return (
        verbatim(f"docker exec {current.container_name} {command}") if current.container_name and command else command
    )


@dataclass(frozen=True)
class PackagesPlace:
    """Where packages are installed, for display ("container NAME", or a folder), and the command of its Python."""

    place: Message
    python: str


class TargetState(abc.ABC):
    """The current state of a target; `sources` are its clones and builds, `weights` the model that is trained."""

    sources: SourcesState
    weights: WeightsState

    @property
    @abc.abstractmethod
    def kept_environment(self) -> Environment | None:
        """Return the environment if it is kept; None if it will be recreated, or is not readable yet."""

    @property
    @abc.abstractmethod
    def installed_packages(self) -> Mapping[str, str] | None:
        """Return the installed versions that are kept; None if they are unknown yet."""

    @property
    @abc.abstractmethod
    def known_state(self) -> EnvironmentState | None:
        """Return the content of the state file; None if there is none."""

    @property
    @abc.abstractmethod
    def python_version(self) -> str:
        """Return the version of the Python that packages are installed for, "" if unknown yet."""

    @property
    @abc.abstractmethod
    def packages_place(self) -> PackagesPlace:
        """Return where packages are installed."""

    @property
    def container_name(self) -> str:
        """Return the name of the container, "" for other targets."""
        return ""

    @property
    def is_torn(self) -> bool:
        """Return whether kept packages may be incomplete because a run was interrupted."""
        env = self.kept_environment
        return bool(env and (env.torn or (env.mark and env.mark.doing in TEARING)))

    def why_root(self, step: Step) -> Message:
        """Return why the step needs root, "" if it does not."""
        return step.root

    def list_doubts(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Message]:
        """Yield notes about the target that block none of these steps."""
        yield from ()

    def list_manual(self) -> Iterator[ManualStep]:
        """Yield what the user does in place of steps that this target cannot have."""
        yield from ()

    @abc.abstractmethod
    def list_satisfied(self) -> Iterator[Message]:
        """Yield what is satisfied already, except packages and later steps."""

    @abc.abstractmethod
    def find_obstacles(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Obstacle]:
        """Yield what prevents these steps."""

"""What a provisioning is to reach, and what its target is like before: all that the kinds of steps plan from.  Pure.

A virtual environment of this host and a recipe's container are two such targets.  Each tells what stays of its
environment, what is so already, and what is in the way; what is missing there, the kinds of steps find.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envcheck.core.facts import Facts
from envcheck.core.model import Finding
from installers.bundle.sources import Supply
from installers.bundle.weights_plan import WeightsState
from installers.plan.requirement import Obstacle
from installers.plan.step import Step
from installers.recipes.recipe import Recipe
from installers.software.sources import Sources
from installers.state.environment import Environment
from installers.state.state_file import TEARING, EnvironmentState


@dataclass(frozen=True)
class DesiredState:
    """`recipe` is the one of `supply`, narrowed to its lock; `role` is this node's, where the recipe has several.

    `driver` is the version of the cards' driver, None where nobody could tell.  By the `facts` of the machine it is
    judged whether it is fit for the recipe, None where that is not asked; `findings` are those of the job itself.
    """

    recipe: Recipe
    supply: Supply
    role: str = ""
    driver: str | None = None
    facts: Facts | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class PackagesPlace:
    """Words for the place that packages go to: "the container NAME", or a folder; and how its Python is called."""

    place: str
    python: str


class TargetState(abc.ABC):
    """A target as it was looked at.  `sources` are its clones and builds, `weights` those that the recipe trains."""

    sources: Sources
    weights: WeightsState

    @property
    @abc.abstractmethod
    def kept(self) -> Environment | None:
        """The environment, as far as it stays; None where it is to be made anew, or cannot be looked into yet."""

    @property
    @abc.abstractmethod
    def packages(self) -> Mapping[str, str] | None:
        """The versions that no step takes away; None where nobody knows yet."""

    @property
    @abc.abstractmethod
    def known(self) -> EnvironmentState | None:
        """What an earlier run of ours left in the state file."""

    @property
    @abc.abstractmethod
    def python(self) -> str:
        """The version of the Python that packages go to, "" where nobody knows yet."""

    @property
    @abc.abstractmethod
    def place(self) -> PackagesPlace: ...

    @property
    def container(self) -> str:
        """Its name, "" where the target is none."""
        return ""

    @property
    def is_torn(self) -> bool:
        """Packages may be there in halves: a run was cut off, and what it put in stays."""
        env = self.kept
        return bool(env and (env.torn or (env.mark and env.mark.doing in TEARING)))

    def why_root(self, step: Step) -> str:
        """Why root alone can do the step, "" where anybody can or the step says so itself."""
        return step.root

    def doubts(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[str]:
        """What stops none of these steps, and a person should know of the target."""
        yield from ()

    @abc.abstractmethod
    def satisfied(self) -> Iterator[str]:
        """What is so already, packages and what comes after them aside."""

    @abc.abstractmethod
    def obstacles(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Obstacle]:
        """What is in the way of these steps."""

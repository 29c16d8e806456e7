"""A recipe's container, its engine and its image, as they are before a provisioning.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core import errors
from envcheck.job.container import describe_doubt
from installers.bundle.weights_plan import WeightsState
from installers.containers.compare import Action, ContainerStatus, differing_words
from installers.containers.host_paths import ContainerPlan
from installers.images.engine import Engine
from installers.images.engine_problems import Problem
from installers.images.image import LocalImage
from installers.images.manifest import ResolvedImage
from installers.plan.requirement import Obstacle
from installers.plan.step import Step
from installers.recipes.recipe import Recipe
from installers.software.sources import Sources
from installers.state.environment import Environment, within
from installers.state.state_file import EnvironmentState
from installers.steps.target_state import DesiredState, PackagesPlace, TargetState


@dataclass(frozen=True)
class ContainerState(TargetState):
    """`found` is the image in a registry, `here` in the engine; `image_problem` why it is in neither.  `moved` is the
    image to which the tag leads in this engine, where it leads elsewhere in the registry by now; `unasked` why no
    registry could say that.  `of_root` are folders of ours to be made where root alone may, `closed` where this user
    may not.

    `environment` is None where the container does not run: what its image holds is seen then.
    """

    engine: Engine
    mark: EnvironmentState | None
    interpreter: str
    drawn: ContainerPlan
    found: ResolvedImage | None = None
    here: LocalImage | None = None
    image_problem: Problem | None = None
    room: Problem | None = None
    standing: ContainerStatus | None = None
    environment: Environment | None = None
    sources: Sources = field(default_factory=Sources)
    weights: WeightsState = field(default_factory=WeightsState)
    moved: str = ""
    unasked: str = ""
    of_root: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.drawn.spec.name

    @property
    def is_running(self) -> bool:
        return bool(self.standing and self.standing.action is Action.REUSE)

    @property
    def kept(self) -> Environment | None:
        return self.environment

    @property
    def packages(self) -> Mapping[str, str] | None:
        return self.environment.packages if self.environment else None

    @property
    def known(self) -> EnvironmentState | None:
        return self.mark

    @property
    def python(self) -> str:
        return self.environment.python if self.environment else ""

    @property
    def place(self) -> PackagesPlace:
        return PackagesPlace(f"the container {self.name}", f"docker exec {self.name} {self.interpreter}")

    @property
    def container(self) -> str:
        return self.name

    def satisfied(self) -> Iterator[str]:
        if self.here:
            yield f"image {self.drawn.spec.image}"
        if self.unasked:
            yield (
                f"it is used as it is here: whether its tag leads elsewhere by now could not be asked ({self.unasked})"
            )
        if self.is_running:
            yield f"container {self.name}: {self.drawn.container.grant.words}"

    def doubts(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[str]:
        made = self.standing is None or self.standing.action in (Action.CREATE, Action.RECREATE)
        doubt = describe_doubt(self.drawn.container, desired.recipe.name)
        if steps and made and doubt:
            yield doubt

    def obstacles(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Obstacle]:
        for problem in (self.engine.problem, self.image_problem, self.room):
            if problem:
                yield Obstacle(problem.message, problem.next_step, errors.UNFIT)
        yield from self.drawn.obstacles
        for folder in self.closed:
            yield Obstacle(f"{folder} cannot be made by this user", "start in a folder of yours")
        if self.standing and self.standing.obstacle:
            found = self.standing.obstacle
            yield Obstacle(found.why + differing_words(self.standing), found.remedy, found.code)
        yield from self._of_image(desired.recipe)

    def _of_image(self, recipe: Recipe) -> Iterator[Obstacle]:
        env = self.environment
        if env and not within(env.python, recipe.python):
            yield Obstacle(
                f"the container's Python {env.python} is not one that {recipe.name} takes ({recipe.python})",
                "the image is not the recipe's: docker image inspect",
            )
        if env and "pip" not in env.packages:
            yield Obstacle(f"the container's {recipe.interpreter} has no pip", "the image is not the recipe's")

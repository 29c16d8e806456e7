"""The state of a recipe's container, engine and image before provisioning.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.compat import image_versions
from envcheck.core import errors
from envcheck.core.messages import Message, _, fill
from envcheck.job.container_privileges import describe_doubt
from installers.bundle.weights_plan import WeightsState
from installers.containers.compare import ContainerAction, ContainerStatus, explain_refusal
from installers.containers.host_paths import ContainerPlan
from installers.images import simulated_engine
from installers.images.docker_engine import DockerEngine
from installers.images.engine_kinds import ForeignEngine, find_gaps
from installers.images.engine_problems import EngineProblem
from installers.images.local_image import LocalImage
from installers.images.manifest import ResolvedImage
from installers.locks import wheel_fit
from installers.plan.requirement import Obstacle
from installers.plan.step import Step
from installers.recipes import apptainer_cli
from installers.recipes.manual_steps import ManualStep
from installers.recipes.recipe import Recipe
from installers.software.sources import SourcesState
from installers.state.environment import Environment, is_allowed_version
from installers.state.state_file import EnvironmentState
from installers.steps.target_state import DesiredState, PackagesPlace, TargetState


@dataclass(frozen=True)
class ContainerState(TargetState):
    """`found` is the image in a registry, `here` the one in the engine; `image_problem` is why it is in neither.

    `moved` is the local image of a tag that now refers to another image in the registry; `unasked` is why no registry
    could be queried for that.  Of the folders to create, `of_root` need root and `closed` cannot be created by this
    user.  `environment` is None if the container does not run: only then its packages are known.  `simulated`: the
    engine is that of a simulated machine.
    """

    engine: DockerEngine
    mark: EnvironmentState | None
    interpreter: str
    drawn: ContainerPlan
    found: ResolvedImage | None = None
    here: LocalImage | None = None
    image_problem: EngineProblem | None = None
    room: EngineProblem | None = None
    standing: ContainerStatus | None = None
    environment: Environment | None = None
    sources: SourcesState = field(default_factory=SourcesState)
    weights: WeightsState = field(default_factory=WeightsState)
    moved: str = ""
    unasked: str = ""
    of_root: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def name(self) -> str:
        return self.drawn.spec.name

    @property
    def foreign(self) -> ForeignEngine | None:
        """Return the program that is on this machine in place of an engine."""
        return self.engine.problem.foreign if self.engine.problem else None

    @property
    def is_running(self) -> bool:
        return bool(self.standing and self.standing.action is ContainerAction.REUSE)

    @property
    def kept_environment(self) -> Environment | None:
        return self.environment

    @property
    def installed_packages(self) -> Mapping[str, str] | None:
        return self.environment.packages if self.environment else None

    @property
    def known_state(self) -> EnvironmentState | None:
        return self.mark

    @property
    def python_version(self) -> str:
        return self.environment.python if self.environment else ""

    @property
    def packages_place(self) -> PackagesPlace:
        return PackagesPlace(_("the container {name}", name=self.name), f"docker exec {self.name} {self.interpreter}")

    @property
    def container_name(self) -> str:
        return self.name

    def list_satisfied(self) -> Iterator[Message]:
        if self.here:
            yield _("image {image}", image=self.drawn.spec.image)
        if self.unasked:
            yield _("local image is used; cannot check whether its tag has moved: {reason}", reason=self.unasked)
        if self.is_running:
            yield _("container {name}: {grant}", name=self.name, grant=self.drawn.container.grant.words)

    def list_doubts(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Message]:
        made = self.standing is None or self.standing.action in (ContainerAction.CREATE, ContainerAction.RECREATE)
        doubt = describe_doubt(self.drawn.container, desired.recipe.name)
        if steps and made and doubt:
            yield doubt
        if steps and self.simulated and not self.engine.problem:
            yield simulated_engine.NOTE

    def list_manual(self) -> Iterator[ManualStep]:
        other = self.foreign
        if other and other.runs_images:
            why = _("{why}; provision inside the image:", why=fill(other.why))
            yield ManualStep(other.title, why, apptainer_cli.list_commands(other.program, self.drawn.spec))

    def find_obstacles(self, desired: DesiredState, steps: Sequence[Step]) -> Iterator[Obstacle]:
        for problem in (self.engine.problem, self.image_problem, self.room):
            if problem:
                yield Obstacle(problem.message, problem.next_step, errors.CHECK_FAILED)
        yield from (Obstacle(*gap) for gap in find_gaps(self.foreign or self.engine.kind, self.drawn.spec))
        yield from self.drawn.obstacles
        for folder in self.closed:
            yield Obstacle(
                _("cannot create {folder}: permission denied", folder=folder),
                _("run the command in a folder that you can write to"),
            )
        if self.standing and self.standing.obstacle:
            found = self.standing.obstacle
            yield Obstacle(explain_refusal(self.standing), found.remedy, found.code)
        yield from self._check_image(desired.recipe)
        yield from _check_contents(desired)

    def _check_image(self, recipe: Recipe) -> Iterator[Obstacle]:
        env = self.environment
        if env and not is_allowed_version(env.python, recipe.python):
            yield Obstacle(
                _(
                    "recipe {recipe} requires Python {wanted}; the container has {python}",
                    python=env.python,
                    recipe=recipe.name,
                    wanted=recipe.python,
                ),
                _("the image differs from the recipe; check it with `docker image inspect`"),
            )
        if env and "pip" not in env.packages:
            yield Obstacle(
                _("{interpreter} in the container has no pip", interpreter=recipe.interpreter),
                _("the image differs from the recipe; check it with `docker image inspect`"),
            )


def _check_contents(desired: DesiredState) -> Iterator[Obstacle]:
    """Yield what the documented Python and glibc of the image do not fit, before anything is pulled."""
    image = image_versions.find_image_versions(desired.image) if desired.image else None
    if image is None:
        return
    python = image.holds.get("python", "")
    if python and not is_allowed_version(f"{python}.99" if python.count(".") == 1 else python, desired.recipe.python):
        yield Obstacle(
            _(
                "recipe {recipe} requires Python {wanted}; the image contains {python}",
                recipe=desired.recipe.name,
                wanted=desired.recipe.python,
                python=python,
            ),
            _("choose another image, or correct the recipe"),
        )
    if why := wheel_fit.explain_misfit(desired.supply.locked_wheels or (), image.holds):
        yield Obstacle(why, _("create a lock file with this image: `envcheck provision --lock FILE`"))

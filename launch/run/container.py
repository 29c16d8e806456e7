"""A training in the recipe's container, entered through the engine: the run's folder there, its logs told to ours.

A program of ours, launch.programs.container_agent, stays with the training in there: the engine can start a command
and not end it, and what happens to the workers is seen from within, whoever we are out here and wherever the engine is.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from envcheck.core import paths
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.facts import Facts
from envcheck.job.command import PROGRAMS, TrainingCommand
from installers.container_environment import ContainerProvisioner
from installers.images import engine
from installers.recipes.recipe import Container, Recipe
from installers.targets import container_errors
from installers.targets.exec_target import OWN, ContainerTarget
from launch.programs import carried
from launch.run.agent_link import ContainerTraining
from launch.run.launcher import argv
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import StageFacts, StageQuestion, answered, question

if TYPE_CHECKING:
    from docker import APIClient

LOOK_S, GRACE_S = 60.0, 8.0
OURS = f"{OWN}/launch"  # our programs, carried in
NONCE = ".here"  # by this file the sitter sees that its folder and ours are one


@dataclass(frozen=True)
class ContainerStage:
    """`role` is this node's, in a recipe of several roles; `facts` are this machine's, asked where None."""

    recipe: Recipe
    role: str = ""
    facts: Facts | None = None

    @property
    def title(self) -> str:
        return f"the container {self.container}"

    @property
    def container(self) -> str:
        return self._container.name

    @property
    def _container(self) -> Container:
        assert self.recipe.container
        return self.recipe.container

    @property
    def _notes(self) -> Path:
        return paths.environment_folder(self.recipe.name).expanduser().absolute()

    def values(self, run: Path | None) -> dict[str, str]:
        ours = {"program": f"{OURS}/tiny.py", "data": f"{OURS}/tiny.txt"}
        if run is None:
            return ours
        there = self.mark(run)
        return {**ours, "output": f"{there}/output", "log_dir": f"{there}/log"}

    def mark(self, run: Path) -> str:
        return str(PurePosixPath(self.recipe.runs or f"{OWN}/runs") / run.name)

    def look(self, asked: StageQuestion) -> StageFacts:
        """What provision would still do is missing; without an engine nothing can be told of the inside."""
        try:
            plan = ContainerProvisioner(self.recipe, self._notes, role=self.role, facts=self.facts).look()
            if plan.obstacles:
                first = plan.obstacles[0]
                return StageFacts(obstacle=first.why, next_step=first.remedy)
            missing = tuple(f"not done yet: {step.title}" for step in plan.unready)
            return StageFacts(missing=missing) if missing else self._inside(asked)
        except EnvcheckError as err:
            return StageFacts(obstacle=err.message, next_step=err.next_step or "")

    def _inside(self, asked: StageQuestion) -> StageFacts:
        theirs = tuple(path for path in asked.paths if not path.startswith(f"{OURS}/"))  # ours come with the training
        data = tuple(path for path in asked.data if path in theirs)
        said = question(replace(asked, paths=theirs, data=data), asked.workdir or "/", self.recipe.runs or OWN)
        with self._connected() as api:
            seat = ContainerTarget(api, self.container, self.recipe.interpreter, self._notes)
            env = seat.environment()
            argv = (seat.python, "-I", "-c", carried.program(), json.dumps(said))
            done = seat.run(argv, timeout_s=LOOK_S, env={})
            image = container_errors.asked(lambda: api.inspect_container(self.container)).get("Image", "")
        line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
        if not line:
            raise StepError(f"{seat.python} in the container {self.container} does not answer", "envcheck doctor")
        found = answered(json.loads(line.removeprefix("ENVCHECK ")))
        return StageFacts(**found, python=env.python or "", packages=env.packages, image=str(image))

    def start(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> ContainerTraining:
        nonce = secrets.token_hex(16)
        (run / NONCE).write_text(nonce)
        job = {
            "argv": list(argv(command)),
            "environment": dict(clean.environment),
            "workdir": command.workdir,
            "run": self.mark(run),
            "nonce": nonce,
            "grace_s": GRACE_S,
        }
        client = engine.connect(engine.look())
        seat = ContainerTarget(client.api, self.container, self.recipe.interpreter, self._notes)
        self._carry(seat, command)
        path = f"{OURS}/job-{nonce}.json"
        seat.write(path, json.dumps(job))
        return ContainerTraining(
            client, seat, (seat.python, "-I", f"{OURS}/container_agent.py", path), run, f"{self.mark(run)}/output"
        )

    def _carry(self, seat: ContainerTarget, command: TrainingCommand) -> None:
        names = ["container_agent.py", *(path.name for path in PROGRAMS.glob("tiny*") if _names(command, path.name))]
        seat.run(("mkdir", "-p", "-m", "700", OURS), timeout_s=LOOK_S, env={})
        for name in names:
            seat.write(f"{OURS}/{name}", (PROGRAMS / name).read_text())

    @contextmanager
    def _connected(self) -> Iterator[APIClient]:
        client = engine.connect(engine.look())
        try:
            yield client.api
        finally:
            client.close()


def _names(command: TrainingCommand, name: str) -> bool:
    """The tiny program comes with all of its files."""
    return any(f"{OURS}/tiny" in word for word in command.argv) and name.startswith("tiny")

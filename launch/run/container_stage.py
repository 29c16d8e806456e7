"""A training in the recipe's container, started through the container engine.

launch.programs.container_agent supervises the training inside: an engine can start a command but not end it, and the
workers' exit codes are visible only there, independent of user and location of the engine.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from envcheck.collect import answer_sources
from envcheck.core import paths
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.facts import Facts
from envcheck.core.messages import Message, _, verbatim
from envcheck.job.command import PROGRAMS, TrainingCommand
from envcheck.vendors import VENDORS
from installers.container_provisioner import ContainerProvisioner
from installers.containers.container_options import ContainerOptions
from installers.images import docker_engine
from installers.recipes.recipe import Recipe, RecipeContainer
from installers.targets import container_errors
from installers.targets.exec_target import OWN, ContainerTarget
from launch.programs import inline_program
from launch.run.agent_link import ContainerTraining
from launch.run.launcher import build_argv
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import StageFacts, StageQuestion, build_probe_request, parse_probe_answer

if TYPE_CHECKING:
    from docker import APIClient

LOOK_S, GRACE_S = 60.0, 8.0
PROGRAMS_FOLDER = f"{OWN}/launch"  # envcheck's programs in the container
NONCE = ".here"  # the agent compares this file to detect a shared run folder


def select_network_variables(recipe: Recipe, facts: Facts | None) -> dict[str, str]:
    """Return the user's variables that name interfaces of this host, if the recipe's container sees them as well."""
    vendor = VENDORS.get(recipe.device)
    given = facts.environment if facts else None
    if not given or vendor is None or recipe.container is None or recipe.container.network != "host":
        return {}
    return {name: given[name] for name in vendor.network_variables if name in given}


@dataclass(frozen=True)
class ContainerStage:
    """A recipe's container; `role` is that of this node; `facts` of this machine are collected if None.

    `cards` are the device node numbers that the job's container has; empty: those of all jobs of the recipe.
    """

    recipe: Recipe
    role: str = ""
    facts: Facts | None = None
    cards: tuple[int, ...] = ()

    @property
    def title(self) -> Message:
        """Name for messages."""
        return _("container {container}", container=self.container)

    @property
    def container(self) -> str:
        """Name of the container."""
        return self._container.name

    @property
    def _container(self) -> RecipeContainer:
        assert self.recipe.container
        return self.recipe.container

    @property
    def _notes_folder(self) -> Path:
        return paths.environment_folder(self.recipe.name).expanduser().absolute()

    def placeholder_values(self, run: Path | None) -> dict[str, str]:
        """Return paths in the container for placeholders of the command."""
        ours = {"program": f"{PROGRAMS_FOLDER}/tiny.py", "data": f"{PROGRAMS_FOLDER}/tiny.txt"}
        if run is None:
            return ours
        there = self.run_mark(run)
        return {**ours, "output": f"{there}/output", "log_dir": f"{there}/log"}

    def run_mark(self, run: Path) -> str:
        """Return the path of the run folder in the container."""
        return str(PurePosixPath(self.recipe.runs or f"{OWN}/runs") / run.name)

    def collect_facts(self, asked: StageQuestion) -> StageFacts:
        """Inspect the container; unfinished provision steps and engine problems are part of the result."""
        if answer_sources.has_simulated_engine():
            why = _("the simulated machine does not have {title}", title=self.title)
            remedy = _("add --provisioned {recipe} to `envcheck simulate`", recipe=self.recipe.name)
            return StageFacts(obstacle=why, next_step=remedy)
        try:
            plan = ContainerProvisioner(
                self.recipe,
                self._notes_folder,
                role=self.role,
                facts=self.facts,
                wish=ContainerOptions(cards=self.cards),
            ).make_current_plan()
            if plan.obstacles:
                first = plan.obstacles[0]
                return StageFacts(obstacle=first.why, next_step=first.remedy)
            missing = tuple(_("not provisioned: {step}", step=step.title) for step in plan.unready_steps)
            return StageFacts(missing=missing) if missing else self._probe_inside(asked)
        except EnvcheckError as err:
            return StageFacts(obstacle=err.message, next_step=err.next_step)

    def _probe_inside(self, asked: StageQuestion) -> StageFacts:
        theirs = tuple(
            path for path in asked.paths if not path.startswith(f"{PROGRAMS_FOLDER}/")
        )  # envcheck's own programs are copied at the start
        data = tuple(path for path in asked.data if path in theirs)
        said = build_probe_request(
            replace(asked, paths=theirs, data=data), asked.workdir or "/", self.recipe.runs or OWN
        )
        with self._connect_engine() as api:
            seat = ContainerTarget(api, self.container, self.recipe.interpreter, self._notes_folder)
            env = seat.read_environment()
            argv = (seat.python, "-I", "-c", inline_program.bundle_program(), json.dumps(said))
            done = seat.run_command(argv, timeout_s=LOOK_S, env={})
            image = container_errors.call_engine(lambda: api.inspect_container(self.container)).get("Image", "")
        line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
        if not line:
            raise StepError(
                _(
                    "{python} in container {container} does not respond",
                    python=seat.python,
                    container=self.container,
                ),
                verbatim("envcheck doctor"),
            )
        found = parse_probe_answer(json.loads(line.removeprefix("ENVCHECK ")))
        found["environment"] = {**found["environment"], **select_network_variables(self.recipe, self.facts)}
        return StageFacts(**found, python=env.python or "", packages=env.packages, image=str(image))

    def start_training(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> ContainerTraining:
        """Copy the agent and its job into the container and start it; StepError if the launcher cannot be executed."""
        nonce = secrets.token_hex(16)
        (run / NONCE).write_text(nonce)
        job = {
            "argv": list(build_argv(command)),
            "environment": dict(clean.environment),
            "workdir": command.workdir,
            "run": self.run_mark(run),
            "nonce": nonce,
            "grace_s": GRACE_S,
        }
        needed = tuple(path.name for path in PROGRAMS.glob("tiny*") if _is_needed_program(command, path.name))
        return self._start_agent(job, run, needed)

    def attach_training(self, run: Path) -> ContainerTraining:
        """Start an agent for a training whose supervisor was killed; it sends what is missing of the logs."""
        nonce = secrets.token_hex(16)
        (run / NONCE).write_text(nonce)
        logs = [path for path in (run / "log").rglob("*") if path.is_file()]
        sent = {str(path.relative_to(run / "log")): path.stat().st_size for path in logs}
        mark = self.run_mark(run)
        job = {"run": mark, "mark": mark, "nonce": nonce, "grace_s": GRACE_S, "sent": sent}
        return self._start_agent(job, run, (), "--attach")

    def _start_agent(
        self, job: dict[str, Any], run: Path, programs: tuple[str, ...], *options: str
    ) -> ContainerTraining:
        client = docker_engine.open_client(docker_engine.inspect_engine())
        seat = ContainerTarget(client.api, self.container, self.recipe.interpreter, self._notes_folder)
        self._copy_programs(seat, ("container_agent.py", *programs))
        path = f"{PROGRAMS_FOLDER}/job-{job['nonce']}.json"
        seat.write_file(path, json.dumps(job))
        return ContainerTraining(
            client,
            seat,
            (seat.python, "-I", f"{PROGRAMS_FOLDER}/container_agent.py", *options, path),
            run,
            f"{self.run_mark(run)}/output",
        )

    def _copy_programs(self, seat: ContainerTarget, names: tuple[str, ...]) -> None:
        seat.run_command(("mkdir", "-p", "-m", "700", PROGRAMS_FOLDER), timeout_s=LOOK_S, env={})
        for name in names:
            seat.write_file(f"{PROGRAMS_FOLDER}/{name}", (PROGRAMS / name).read_text())

    @contextmanager
    def _connect_engine(self) -> Iterator[APIClient]:
        client = docker_engine.open_client(docker_engine.inspect_engine())
        try:
            yield client.api
        finally:
            client.close()


def _is_needed_program(command: TrainingCommand, name: str) -> bool:
    """Whether the command needs this file of the tiny program."""
    return any(f"{PROGRAMS_FOLDER}/tiny" in word for word in command.argv) and name.startswith("tiny")

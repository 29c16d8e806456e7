"""Provision in a virtual environment on this host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.facts import Facts
from envcheck.job.local_facts import read_architecture
from envcheck.job.requirements.software_versions import is_allowed
from installers.bundle import weights_plan
from installers.bundle.weights_plan import WeightsState
from installers.plan import host_facts, interpreters
from installers.plan.interpreters import Interpreter, PythonChoice
from installers.plan.step import Plan
from installers.planning import plan_by_hand
from installers.provisioner import Provisioner
from installers.software import sources
from installers.software.builds import BuildSite
from installers.state import environment
from installers.state.environment import Environment, FolderKind
from installers.state.progress import Report
from installers.steps.venv_state import VenvState
from installers.steps.work import StepContext
from installers.targets.target import VenvTarget


@dataclass(frozen=True)
class VenvProvisioner(Provisioner):
    """`by_hand`: the recipe has an image, so the plan only lists manual steps for its packages.  `python`: the user's
    choice for a new environment."""

    by_hand: bool = False
    python: PythonChoice | None = None

    def _plan_steps(self) -> Plan:
        if self.by_hand:
            return plan_by_hand(
                self.recipe, self.folder, self.installed_driver, read_architecture(self.facts or Facts())
            )
        return super()._plan_steps()

    def observe_target(self) -> VenvState:
        """Return the current state; clones and builds are inspected with the environment's Python, once it exists."""
        env = environment.read_environment(self.folder)
        ground = BuildSite(VenvTarget(self.folder, site=self.site), supply=self.supply)
        chosen = self._choose_interpreter(env)
        minor = ".".join(chosen.version.split(".")[:2]) if chosen and self.python else ""
        ready = env.kind is FolderKind.ENVIRONMENT and env.works and bool(self.recipe.checkouts)
        return VenvState(
            env,
            host_facts.read_facts(
                self.folder,
                self.recipe.libraries,
                [each.directory for each in self.recipe.checkouts],
                chosen,
            ),
            ",".join(filter(None, (self.recipe.python, f"=={minor}.*" if minor else ""))),
            sources.inspect_if_possible(self.recipe, ground, self.role)
            if ready
            else sources.sources_from_lock(self.recipe, self.supply, self.role),
            weights_plan.inspect_weights(self.recipe, self.supply, Path.cwd(), boxed=False)
            if self.supply
            else WeightsState(),
        )

    @property
    def accepted_python(self) -> str:
        """Return the specifier of the recipe, narrowed to the Python that a lock's wheels are for."""
        lock = self.supply.lock if self.supply else None
        locked = f"=={lock.python}.*" if lock and lock.python and lock.wheels else ""
        return ",".join(filter(None, (self.recipe.python, locked)))

    @property
    def script_interpreter(self) -> str:
        chosen = self._choose_interpreter(environment.read_environment(self.folder))
        return chosen.path if chosen else interpreters.read_own().path

    def _choose_interpreter(self, env: Environment) -> Interpreter | None:
        """Return the Python of a new environment; None, which asks no other one, if there is a suitable one already."""
        if env.kind is FolderKind.ENVIRONMENT and self.python is None and is_allowed(env.python, self.accepted_python):
            return None
        return interpreters.choose_interpreter(self.python, self.accepted_python, self.recipe.name)

    @contextlib.contextmanager
    def open_work(self, lock: int, report: Report) -> Iterator[StepContext]:
        ground = BuildSite(VenvTarget(self.folder, lock, self.site), supply=self.supply)
        chosen = self._choose_interpreter(environment.read_environment(self.folder))
        place = host_facts.read_facts(self.folder, interpreter=chosen)
        yield StepContext(self.recipe, self.folder, place, ground, report, role=self.role, supply=self.supply)

"""Provision in a virtual environment on this host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.facts import Facts
from envcheck.job.local_facts import read_architecture
from installers.bundle import weights_plan
from installers.bundle.weights_plan import WeightsState
from installers.plan import host_facts
from installers.plan.step import Plan
from installers.planning import plan_by_hand
from installers.provisioner import Provisioner
from installers.software import sources
from installers.software.builds import BuildSite
from installers.state import environment
from installers.state.environment import FolderKind
from installers.state.progress import Report
from installers.steps.venv_state import VenvState
from installers.steps.work import StepContext
from installers.targets.target import VenvTarget


@dataclass(frozen=True)
class VenvProvisioner(Provisioner):
    """`by_hand`: the recipe has an image, so the plan only lists manual steps for its packages."""

    by_hand: bool = False

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
        ready = env.kind is FolderKind.ENVIRONMENT and env.works and bool(self.recipe.checkouts)
        return VenvState(
            env,
            host_facts.read_facts(
                self.folder, self.recipe.libraries, [each.directory for each in self.recipe.checkouts]
            ),
            self.recipe.python,
            sources.inspect_if_possible(self.recipe, ground, self.role)
            if ready
            else sources.sources_from_lock(self.recipe, self.supply, self.role),
            weights_plan.inspect_weights(self.recipe, self.supply, Path.cwd(), boxed=False)
            if self.supply
            else WeightsState(),
        )

    @contextlib.contextmanager
    def open_work(self, lock: int, report: Report) -> Iterator[StepContext]:
        ground = BuildSite(VenvTarget(self.folder, lock, self.site), supply=self.supply)
        place = host_facts.read_facts(self.folder)
        yield StepContext(self.recipe, self.folder, place, ground, report, role=self.role, supply=self.supply)

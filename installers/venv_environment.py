"""Provisioning in a virtual environment of this host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.facts import Facts
from envcheck.job.here import read_architecture
from installers.bundle import weights_plan
from installers.bundle.weights_plan import WeightsState
from installers.make_plan import plan_by_hand
from installers.plan import host_facts
from installers.plan.step import Plan
from installers.provisioner import Provisioner
from installers.software import sources
from installers.software.builds import BuildSite
from installers.state import environment
from installers.state.environment import FolderKind
from installers.state.progress import Report
from installers.steps.venv_state import VenvState
from installers.steps.work import Work
from installers.targets.target import VenvTarget


@dataclass(frozen=True)
class VenvProvisioner(Provisioner):
    """`by_hand`: the recipe has an image, and its packages are left to a person."""

    by_hand: bool = False

    def _plan(self) -> Plan:
        if self.by_hand:
            return plan_by_hand(self.recipe, self.folder, self.driver, read_architecture(self.facts or Facts()))
        return super()._plan()

    def observe(self) -> VenvState:
        """Clones and builds are looked at with the environment's own Python, so not before it is there."""
        env = environment.read(self.folder)
        ground = BuildSite(VenvTarget(self.folder), supply=self.supply)
        ready = env.kind is FolderKind.ENVIRONMENT and env.works and bool(self.recipe.checkouts)
        return VenvState(
            env,
            host_facts.read(self.folder, self.recipe.libraries, [each.directory for each in self.recipe.checkouts]),
            self.recipe.python,
            sources.unknown(self.recipe, ground, self.role)
            if ready
            else sources.unseen(self.recipe, self.supply, self.role),
            weights_plan.look(self.recipe, self.supply, Path.cwd(), boxed=False) if self.supply else WeightsState(),
        )

    @contextlib.contextmanager
    def work(self, lock: int, report: Report) -> Iterator[Work]:
        ground = BuildSite(VenvTarget(self.folder, lock), supply=self.supply)
        place = host_facts.read(self.folder)
        yield Work(self.recipe, self.folder, place, ground, report, role=self.role, supply=self.supply)

"""The base class of provisioners: they observe a target and provide the context for its steps."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Facts
from envcheck.core.messages import verbatim
from envcheck.job.definition import Job
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.bundle.sources import Supply
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan
from installers.planning import make_plan
from installers.recipes.recipe import Recipe
from installers.state.progress import Report
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext


@dataclass(frozen=True)
class Provisioner(abc.ABC):
    """`folder` is on this host, for envcheck's records or the virtual environment; `role` is the role of this node.

    With a `supply`, `recipe` is restricted to its lock.  With a `job`, the plan names it, and the machine's `facts` are
    checked against its requirements.
    """

    recipe: Recipe
    folder: Path
    role: str = ""
    supply: Supply | None = None
    facts: Facts | None = None
    job: Job | None = None

    @property
    def site(self) -> SiteAccess:
        """Return how this site reaches the outside."""
        return self.supply.site if self.supply else NO_SITE

    @property
    def desired_state(self) -> DesiredState:
        """Return what the target should be like."""
        supply, judged = self.supply or Supply(self.recipe), self.facts if self.job else None
        findings = self.job.findings if self.job else ()
        image = self.job.image if self.job else None
        return DesiredState(self.recipe, supply, self.role, self.installed_driver, judged, findings, image)

    @property
    def installed_driver(self) -> str | None:
        """Return the version of the device driver, None if it is unknown or the recipe has no minimum."""
        found = next((v for v in self.facts.vendors if v.name == self.recipe.device), None) if self.facts else None
        return driver_version(found) if found and self.recipe.driver_minimum else None

    @property
    def script_interpreter(self) -> str:
        """Return the Python with which a script creates an environment."""
        return "python3"

    def make_current_plan(self) -> Plan:
        """Return the plan for the current state of the target; changes nothing."""
        return add_job(self._plan_steps(), self.job)

    def _plan_steps(self) -> Plan:
        return make_plan(self.desired_state, self.observe_target(), self.folder)

    def list_refusals(self) -> Iterator[Obstacle]:
        """Yield why the plan can be shown but not be carried out."""
        yield from ()

    @abc.abstractmethod
    def observe_target(self) -> TargetState:
        """Return the current state of the target; changes nothing."""

    @abc.abstractmethod
    def open_work(self, lock: int, report: Report) -> AbstractContextManager[StepContext]:
        """Open the context for the steps; `lock` is the descriptor of the environment's lock."""


def add_job(plan: Plan, job: Job | None) -> Plan:
    """Return the plan with its job, the host that the job is resolved for, and why it was selected."""
    if job is None:
        return plan
    return replace(plan, job=job.as_json(), assumed_host=job.assumed_host, reason=verbatim(job.reason))

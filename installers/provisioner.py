"""Where a recipe is provisioned, one target or the other: how it is looked at, and what its steps share."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.facts import Facts
from envcheck.core.key_value import driver_version
from envcheck.job.job import Job
from installers.bundle.sources import Supply
from installers.make_plan import make_plan
from installers.plan.step import Plan
from installers.recipes.recipe import Recipe
from installers.state.progress import Report
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work


@dataclass(frozen=True)
class Provisioner(abc.ABC):
    """`folder` is this host's, for our notes, and the environment if it is one; `role` is this node's.

    With a `supply`, `recipe` is the narrowed one.  `job` is what the machine is made fit for: where it is given the
    plan says so, and by the machine's `facts` whether it is fit at all.
    """

    recipe: Recipe
    folder: Path
    role: str = ""
    supply: Supply | None = None
    facts: Facts | None = None
    job: Job | None = None

    @property
    def desired(self) -> DesiredState:
        supply, judged = self.supply or Supply(self.recipe), self.facts if self.job else None
        findings = self.job.findings if self.job else ()
        return DesiredState(self.recipe, supply, self.role, self.driver, judged, findings)

    @property
    def driver(self) -> str | None:
        """The version of the cards' driver, None where nobody can tell."""
        found = next((v for v in self.facts.vendors if v.name == self.recipe.device), None) if self.facts else None
        return driver_version(found) if found and self.recipe.driver_minimum else None

    def look(self) -> Plan:
        """What would have to be done now; changes nothing."""
        return with_job(self._plan(), self.job)

    def _plan(self) -> Plan:
        return make_plan(self.desired, self.observe(), self.folder)

    @abc.abstractmethod
    def observe(self) -> TargetState:
        """What the target is like now; changes nothing."""

    @abc.abstractmethod
    def work(self, lock: int, report: Report) -> AbstractContextManager[Work]:
        """What the steps share, for as long as they are performed."""


def with_job(plan: Plan, job: Job | None) -> Plan:
    """The plan that says what job it is for, for which host that is resolved, and why it was chosen."""
    if job is None:
        return plan
    return replace(plan, job=job.as_json(), assumed_host=job.assumed_host, reason=job.reason)

"""Provisioning in the recipe's container."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from envcheck.job.here import collect_facts_here
from envcheck.job.request import JobRequest
from installers import container_facts
from installers.bundle import weights_plan
from installers.containers.container_options import Wish
from installers.images import engine, engine_lock
from installers.plan import host_facts
from installers.provisioner import Provisioner
from installers.software.builds import BuildSite
from installers.state.progress import Report
from installers.steps.container_state import ContainerState
from installers.steps.work import Work
from installers.targets.exec_target import ContainerTarget


@dataclass(frozen=True)
class ContainerProvisioner(Provisioner):
    """`wish` is what the user said of the container; where there are no `facts` the machine is asked."""

    wish: Wish = field(default_factory=Wish)

    def observe(self) -> ContainerState:
        facts = self.facts or collect_facts_here(JobRequest(device=self.recipe.device))
        seen = container_facts.observe_container(self.recipe, self.folder, self.wish, facts, self.role, self.supply)
        if not self.supply:
            return seen
        return replace(seen, weights=weights_plan.look(self.recipe, self.supply, self.wish.start, boxed=True))

    @contextlib.contextmanager
    def work(self, lock: int, report: Report) -> Iterator[Work]:
        """What a run that was killed left running in the container is ended first.  The lock is ours alone: what runs
        in a container does not inherit it."""
        assert self.recipe.container
        with engine.connected() as (host, client):
            target = ContainerTarget(client.api, self.recipe.container.name, self.recipe.interpreter, self.folder)
            with engine_lock.held(host.url, target.container):
                target.end()
                ground = BuildSite(target, supply=self.supply)
                here = host_facts.read(self.folder)
                terms = (client, self.role, self.supply)
                yield Work(self.recipe, self.folder, here, ground, report, *terms)

"""Provision in the recipe's container."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from envcheck.collect.answer_sources import has_simulated_engine
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.request import JobRequest
from installers import container_facts
from installers.bundle import weights_plan
from installers.containers.container_options import ContainerOptions
from installers.images import docker_engine, engine_lock, simulated_engine
from installers.plan import host_facts
from installers.plan.requirement import Obstacle
from installers.provisioner import Provisioner
from installers.software.builds import BuildSite
from installers.state.progress import Report
from installers.steps.container_state import ContainerState
from installers.steps.work import StepContext
from installers.targets.exec_target import ContainerTarget


@dataclass(frozen=True)
class ContainerProvisioner(Provisioner):
    """`wish` are the user's options for the container; without `facts` they are collected from this machine."""

    wish: ContainerOptions = field(default_factory=ContainerOptions)

    def observe_target(self) -> ContainerState:
        facts = self.facts or collect_facts_here(JobRequest(device=self.recipe.device))
        seen = container_facts.observe_container(self.recipe, self.folder, self.wish, facts, self.role, self.supply)
        if not self.supply:
            return seen
        return replace(
            seen, weights=weights_plan.inspect_weights(self.recipe, self.supply, self.wish.start, boxed=True)
        )

    def list_refusals(self) -> Iterator[Obstacle]:
        if has_simulated_engine():
            yield simulated_engine.REFUSAL

    @contextlib.contextmanager
    def open_work(self, lock: int, report: Report) -> Iterator[StepContext]:
        """Yield the context of the steps, holding the lock of the container.

        Commands left running by a killed run are ended first: in a container they do not inherit the lock.
        """
        assert self.recipe.container
        with docker_engine.engine_client() as (host, client):
            names = (self.recipe.container.name, self.recipe.interpreter)
            target = ContainerTarget(client.api, *names, self.folder, self.site)
            with engine_lock.hold_lock(host.url, target.container):
                target.end_commands()
                ground = BuildSite(target, supply=self.supply)
                here = host_facts.read_facts(self.folder)
                terms = (client, self.role, self.supply)
                yield StepContext(self.recipe, self.folder, here, ground, report, *terms)

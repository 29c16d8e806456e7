"""The machines that a plan is about, and the job's layout on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envcheck.cli.planning import planned_recipe
from envcheck.cli.planning.plan_options import LayoutOptions, SearchOptions
from envcheck.core.messages import _
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.request import JobRequest
from envcheck.report import screen
from launch.planner import default_layout, host_spread, machines, resolve

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.fleet.output import HostOutput
    from envcheck.job.definition import Job
    from launch.memory.planned_job import PlannedJob
    from launch.planner.host_spread import CombinedHosts
    from launch.planner.resolve import PlannedMachine

DESCRIBED = ("cards", "nodes", "cards_per_node", "memory_gib", "used_gib")  # devices of described machines


@dataclass(frozen=True)
class PlanningTarget:
    """The hardware of the plan: the hosts of --hosts, this machine, or neither if it is described.

    `job` is the recipe's job for this machine.  `is_absent`: --device names devices that this machine does not have.
    """

    spread: CombinedHosts | None = None
    facts: Facts | None = None
    job: Job | None = None
    is_absent: bool = False

    @property
    def job_elsewhere(self) -> Job | None:
        """The job if this machine cannot run it and the plan is about this machine."""
        return self.job if self.job and self.job.needs_another_machine and not self.is_absent else None


def examine_machines(request: LayoutOptions) -> PlanningTarget:
    """Collect facts of the hosts or this machine once; nothing is collected for described hardware."""
    if request.is_over_ssh:
        return PlanningTarget(_collect_spread(request))
    if request.is_described:
        return PlanningTarget()
    with screen.show_hint(_("collecting facts from this machine ...")):
        facts = collect_facts_here(JobRequest(device=request.device))
    described = any(request.option_values[name] is not None for name in DESCRIBED)
    job = None if described else planned_recipe.resolve_here(request.option_values, facts)
    return PlanningTarget(
        facts=facts, job=job, is_absent=job is not None and planned_recipe.needs_absent_devices(job, request.device)
    )


def lay_out_job(seen: PlanningTarget, request: LayoutOptions) -> tuple[PlannedMachine, PlannedJob]:
    """Devices and layout: the recipe's, otherwise the requested or the fastest one."""
    machine = seen.spread.machine if seen.spread else _describe_machine(request, seen.facts)
    if seen.facts and seen.job and (seen.is_absent or not isinstance(request, SearchOptions)):
        own = planned_recipe.lay_out(seen.job, seen.facts, request.option_values)
        if own:
            return own
    spread = resolve.spread_over_nodes(machine, request.nodes, bool(request.cards))
    offer = planned_recipe.find_offer(request.option_values, machine.device.vendor)
    model = planned_recipe.name_planned_model(request.option_values, seen.job, offer)
    return machine, default_layout.choose_layout(spread, model, request.method or "", request.option_values, offer)


def _collect_spread(request: LayoutOptions) -> CombinedHosts:
    """The devices of all hosts, collected over SSH."""
    from envcheck.cli.machines import fleet
    from envcheck.collect.fact_reader import read_facts
    from envcheck.fleet import connectivity

    def read(said: HostOutput) -> tuple[str, PlannedMachine | str]:
        if said.answers is None:
            return said.host, connectivity.judge_answer(said).seen
        known = read_facts(said.answers, request.device)
        return said.host, host_spread.read_host_machine(known, request.device)

    return host_spread.combine_hosts(dict(fleet.ask_each_host(request, read, ())))


def _describe_machine(request: LayoutOptions, here: Facts | None) -> PlannedMachine:
    """The described hardware; otherwise this machine."""
    per_node = request.cards_per_node
    if here is None:
        return machines.build_described_machine(
            request.hardware or request.device, request.cards, request.memory_gib, request.used_gib, per_node
        )
    names = ("cards", "memory_gib", "used_gib")
    given = {name: value for name in names if (value := request.option_values[name]) is not None}
    cards = request.cards and -(-request.cards // (request.nodes or 1))
    nodes = {name: value for name in ("nodes", "cards_per_node") if (value := request.option_values[name])}
    found = machines.set_cards_per_node(
        machines.find_machine(here, request.device, cards, given | nodes), cards, per_node
    )
    told = "memory_gib" in given
    return replace(
        found, **given, each=found.each if given.keys() <= {"cards"} else (), parted=found.parted and not told
    )

"""Check before submission which nodes of a scheduler meet the requirements of a job, with the checks of one machine.

A scheduler knows only a few facts of a node. Unknown facts do not block a job: the preflight checks of the node check
them when the job starts there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.core.facts import Facts, MachineRequirements, SystemFacts, VendorFacts
from envcheck.core.messages import _
from envcheck.core.model import Device, Finding, Status, diagnose
from envcheck.job.definition import Job
from envcheck.job.suitability import judge_requirements, list_unmet
from envcheck.vendors import VENDORS
from launch.gates.run_location import ELSEWHERE

# Requirements that can be checked with a scheduler's facts → the field of NodeResources that each needs.
KNOWN = {
    "job.degrees": "name",
    "job.device": "devices",
    "job.cards": "devices",
    "job.architecture": "architecture",
    "job.host_memory": "memory_bytes",
}
TOO_FEW = diagnose(_("Use a partition or cluster with more nodes, or another variant of the job."), "envcheck recipes")


@dataclass(frozen=True)
class NodeResources:
    """A scheduler's facts of a node; None: unknown. `devices` counts per vendor, as the vendors' tools count;
    `places` is how many pods of the job fit on it (1 where a job gets whole nodes)."""

    name: str
    devices: Mapping[str, int] | None = None
    architecture: str | None = None
    memory_bytes: int | None = None
    places: int = 1


@dataclass(frozen=True)
class NodePool:
    """Nodes that one job can use together: those of a partition or of a cluster."""

    name: str
    nodes: tuple[NodeResources, ...]


@dataclass(frozen=True)
class PoolVerdict:
    """`unmet` and `unchecked`: node → requirements that it does not meet, or that could not be checked."""

    pool: NodePool
    unmet: Mapping[str, tuple[Finding, ...]]
    unchecked: Mapping[str, tuple[str, ...]]

    @property
    def fitting_count(self) -> int:
        """How many pods or nodes of the job fit on nodes without unmet requirements."""
        return sum(node.places for node in self.pool.nodes if node.name not in self.unmet)

    @property
    def has_device(self) -> bool:
        """Whether at least one node has the job's kind of device."""
        without = [unmet for unmet in self.unmet.values() if any(f.name == "job.device" for f in unmet)]
        return len(without) < len(self.pool.nodes)


@dataclass(frozen=True)
class PlacementVerdict:
    """Whether a pool has the `needed` nodes for a job, or for one component of it; without pools nothing is known."""

    title: str
    needed: int
    pools: tuple[PoolVerdict, ...]

    @property
    def is_refused(self) -> bool:
        """Whether no pool has enough fitting nodes."""
        return bool(self.pools) and all(each.fitting_count < self.needed for each in self.pools)

    @property
    def findings(self) -> dict[str, tuple[Finding, ...]]:
        """Why the job is refused: node → unmet requirements, pool → that it has too few nodes.

        Only of pools with the job's kind of device, if there are any.
        """
        if not self.is_refused:
            return {}
        near = [each for each in self.pools if each.has_device] or self.pools
        found = {node: unmet for each in near for node, unmet in each.unmet.items()}
        small = (each for each in near if not each.unmet)
        return found | {
            each.pool.name: (_build_too_few_nodes_finding(self.needed, each.fitting_count),) for each in small
        }

    @property
    def unchecked(self) -> dict[str, tuple[str, ...]]:
        """Node → names of the requirements that could not be checked."""
        return {node: names for each in self.pools for node, names in each.unchecked.items()}

    @property
    def blocked_by(self) -> tuple[str, ...]:
        """The names of the unmet requirements, each once; () unless the job is refused."""
        return tuple(dict.fromkeys(list_unmet(f for found in self.findings.values() for f in found)))


def judge_placement(
    title: str, wanted: MachineRequirements, needed: int, pools: Iterable[NodePool], waived: Collection[str] = ()
) -> PlacementVerdict:
    """Return the verdict on all pools. Requirements whose preflight checks are waived are not checked here either."""
    rules = [name for name in KNOWN if ELSEWHERE.get(name, name) not in waived]
    return PlacementVerdict(title, needed, tuple(_judge_pool(pool, wanted, rules) for pool in pools))


def apply_verdict(job: Job, verdict: PlacementVerdict | None) -> Job:
    """Return the job with the findings of its nodes instead of those of this machine; None: nodes are unknown."""
    found = [f for findings in verdict.findings.values() for f in findings] if verdict else []
    return replace(job, findings=tuple({f.name: f for f in found}.values()))


def _judge_pool(pool: NodePool, wanted: MachineRequirements, rules: Sequence[str]) -> PoolVerdict:
    """Judge the nodes of a pool; equal nodes once, since a cluster has thousands of nodes of a few kinds."""
    judged: dict[object, tuple[Finding, ...]] = {}
    unmet, unchecked = {}, {}
    for node in pool.nodes:
        kind = (node.devices and tuple(node.devices.items()), node.architecture, node.memory_bytes)
        if kind not in judged:
            judged[kind] = _judge_node(node, wanted, rules)
        if judged[kind]:
            unmet[node.name] = judged[kind]
        if unknown := tuple(
            name for name in _list_asked_requirements(wanted) if name in rules and getattr(node, KNOWN[name]) is None
        ):
            unchecked[node.name] = unknown
    return PoolVerdict(pool, unmet, unchecked)


def _judge_node(node: NodeResources, wanted: MachineRequirements, rules: Sequence[str]) -> tuple[Finding, ...]:
    known = [name for name in rules if getattr(node, KNOWN[name]) is not None]
    found = judge_requirements(build_facts(node, wanted)) if known else ()
    # Without evidence: it names commands of a machine, which were not run on the node.
    return tuple(replace(f, evidence=()) for f in found if f.status is Status.FAIL and f.name in known)


def _list_asked_requirements(wanted: MachineRequirements) -> tuple[str, ...]:
    """Return those of KNOWN that the job requires."""
    asked = {
        "job.cards": wanted.cards,
        "job.architecture": wanted.architectures,
        "job.host_memory": wanted.host_memory_gib,
    }
    return tuple(name for name, value in asked.items() if value)


def build_facts(node: NodeResources, wanted: MachineRequirements) -> Facts:
    """Return the facts of a node as doctor would collect them, as far as the scheduler knows them."""
    vendors = tuple(
        VendorFacts(VENDORS[name], devices=tuple(Device(index=number) for number in range(count)))
        for name, count in (node.devices or {}).items()
        if count
    )
    host = SystemFacts(architecture=node.architecture, memory_available_bytes=node.memory_bytes)
    return Facts(device=wanted.device, vendors=vendors, host=host, wanted=wanted)


def count_devices(units: int, asked: int, devices: int) -> int:
    """Return how many devices `units` of a scheduler's resource are, if a job requests `asked` units for `devices`
    devices: a site may count boards with several devices each."""
    return units * devices // asked if asked else units


def _build_too_few_nodes_finding(needed: int, found: int) -> Finding:
    return Finding(
        "job.nodes", Status.FAIL, _("this job needs {needed} nodes; {found} found", needed=needed, found=found), TOO_FEW
    )

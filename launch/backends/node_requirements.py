"""Which of a scheduler's nodes can meet a job's requirements, by the judge of every machine: before anything is queued.

A scheduler knows little of a node, and what it does not know refuses nothing: the node's own gates judge it when the
job starts there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.core.facts import Facts, Host, VendorFacts, Wanted
from envcheck.core.model import Device, Finding, Remedy, Status
from envcheck.job.job import Job
from envcheck.job.suitability import judge_requirements, list_unmet
from envcheck.vendors import VENDORS
from launch.gates.place import ELSEWHERE

# The requirements that a scheduler knows enough of a node for, with the field of NodeResources that each takes.
KNOWN = {
    "job.degrees": "name",
    "job.device": "devices",
    "job.cards": "devices",
    "job.architecture": "architecture",
    "job.host_memory": "memory_bytes",
}
TOO_FEW = Remedy("Use a partition or cluster with more nodes, or another variant of the job.", ("envcheck recipes",))


@dataclass(frozen=True)
class NodeResources:
    """What a scheduler knows of a node; None: nothing.  `devices` are counted by vendor, as the vendors' tools do;
    `places`: so many nodes of the job find room on it, where it need not be the job's alone."""

    name: str
    devices: Mapping[str, int] | None = None
    architecture: str | None = None
    memory_bytes: int | None = None
    places: int = 1


@dataclass(frozen=True)
class NodePool:
    """Nodes that one job can get together: those of a partition, or of a cluster."""

    name: str
    nodes: tuple[NodeResources, ...]


@dataclass(frozen=True)
class PoolVerdict:
    """By node: the requirements that it does not meet, and those that cannot be judged from here."""

    pool: NodePool
    unmet: Mapping[str, tuple[Finding, ...]]
    unchecked: Mapping[str, tuple[str, ...]]

    @property
    def fitting(self) -> int:
        """How many nodes of the job find a place that meets every requirement, as far as the scheduler knows."""
        return sum(node.places for node in self.pool.nodes if node.name not in self.unmet)

    @property
    def has_device(self) -> bool:
        without = [unmet for unmet in self.unmet.values() if any(f.name == "job.device" for f in unmet)]
        return len(without) < len(self.pool.nodes)


@dataclass(frozen=True)
class PlacementVerdict:
    """Whether some pool has as many nodes as the job needs, or one component of it; no pool: nothing is known."""

    title: str
    needed: int
    pools: tuple[PoolVerdict, ...]

    @property
    def is_refused(self) -> bool:
        return bool(self.pools) and all(each.fitting < self.needed for each in self.pools)

    @property
    def findings(self) -> dict[str, tuple[Finding, ...]]:
        """Why it is refused: node → the requirements that it does not meet; pool → that it has too few nodes.

        Of pools with the job's kind of device alone, where there are some: the others are for other jobs.
        """
        if not self.is_refused:
            return {}
        near = [each for each in self.pools if each.has_device] or self.pools
        found = {node: unmet for each in near for node, unmet in each.unmet.items()}
        small = (each for each in near if not each.unmet)
        return found | {each.pool.name: (_too_few(self.needed, each.fitting),) for each in small}

    @property
    def unchecked(self) -> dict[str, tuple[str, ...]]:
        return {node: names for each in self.pools for node, names in each.unchecked.items()}

    @property
    def blocked_by(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(list_unmet(f for found in self.findings.values() for f in found)))


def judge_placement(
    title: str, wanted: Wanted, needed: int, pools: Iterable[NodePool], waived: Collection[str] = ()
) -> PlacementVerdict:
    """`waived` names the gates that a person opened for this run: what they judge refuses nothing here either."""
    rules = [name for name in KNOWN if ELSEWHERE.get(name, name) not in waived]
    return PlacementVerdict(title, needed, tuple(_judge_pool(pool, wanted, rules) for pool in pools))


def apply_verdict(job: Job, verdict: PlacementVerdict | None) -> Job:
    """The job, blocked by what its nodes lack, and not by what this machine lacks; None: nobody knows its nodes."""
    found = [f for findings in verdict.findings.values() for f in findings] if verdict else []
    return replace(job, findings=tuple({f.name: f for f in found}.values()))


def _judge_pool(pool: NodePool, wanted: Wanted, rules: Sequence[str]) -> PoolVerdict:
    """Nodes that are equal are judged once: a cluster has thousands of a few kinds."""
    judged: dict[object, tuple[Finding, ...]] = {}
    unmet, unchecked = {}, {}
    for node in pool.nodes:
        kind = (node.devices and tuple(node.devices.items()), node.architecture, node.memory_bytes)
        if kind not in judged:
            judged[kind] = _judge_node(node, wanted, rules)
        if judged[kind]:
            unmet[node.name] = judged[kind]
        if unknown := tuple(name for name in _asked(wanted) if name in rules and getattr(node, KNOWN[name]) is None):
            unchecked[node.name] = unknown
    return PoolVerdict(pool, unmet, unchecked)


def _judge_node(node: NodeResources, wanted: Wanted, rules: Sequence[str]) -> tuple[Finding, ...]:
    known = [name for name in rules if getattr(node, KNOWN[name]) is not None]
    found = judge_requirements(build_facts(node, wanted)) if known else ()
    # The evidence names commands of a machine, and nobody ran them there.
    return tuple(replace(f, evidence=()) for f in found if f.status is Status.FAIL and f.name in known)


def _asked(wanted: Wanted) -> tuple[str, ...]:
    """Those of KNOWN that the job has."""
    asked = {
        "job.cards": wanted.cards,
        "job.architecture": wanted.architectures,
        "job.host_memory": wanted.host_memory_gib,
    }
    return tuple(name for name, value in asked.items() if value)


def build_facts(node: NodeResources, wanted: Wanted) -> Facts:
    """The node as doctor would know it from this alone."""
    vendors = tuple(
        VendorFacts(VENDORS[name], devices=tuple(Device(index=number) for number in range(count)))
        for name, count in (node.devices or {}).items()
        if count
    )
    host = Host(architecture=node.architecture, memory_available_bytes=node.memory_bytes)
    return Facts(device=wanted.device, vendors=vendors, host=host, wanted=wanted)


def count_devices(units: int, asked: int, devices: int) -> int:
    """How many devices a node has whose scheduler counts `units`, where it is asked for `asked` of them for so many
    devices: a site may count the cards that are bought, each of several devices."""
    return units * devices // asked if asked else units


def _too_few(needed: int, found: int) -> Finding:
    return Finding("job.nodes", Status.FAIL, f"this job needs {needed} nodes; {found} found", TOO_FEW)

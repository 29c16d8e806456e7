"""What Slurm knows of its nodes: cards, memory, architecture.  The one question is to scontrol."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.units import MIB
from envcheck.fleet.hosts import chosen
from envcheck.vendors import VENDORS
from launch.backends.node_requirements import NodePool, NodeResources, PlacementVerdict, count_devices, judge_placement
from launch.backends.slurm import control, site
from launch.backends.slurm.job import JobComponent, SlurmPlan
from launch.backends.slurm.site import NodeCards, PartitionRow

SCONTROL = ("--oneliner", "show", "node")
UNSET_MEMORY_MIB = 1  # RealMemory of a node whose line in slurm.conf names none


@dataclass(frozen=True)
class SlurmNode:
    """`memory_mib` and `architecture` are None where Slurm does not know them: of a node that never registered, too."""

    name: str
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    cards: tuple[NodeCards, ...]
    memory_mib: int | None
    architecture: str | None


def ask() -> tuple[SlurmNode, ...] | str:
    """All nodes, or why Slurm does not say."""
    answer = control.scontrol(*SCONTROL)
    if answer.absent:
        return "there is no scontrol here"
    return control.why(answer) if answer.status else tuple(parse(answer.out))


def parse(text: str) -> Iterable[SlurmNode]:
    """The answer to SCONTROL, a node a line; of a name that comes twice the first is Slurm's, later ones a person's:

    NodeName=node01 Arch=aarch64 CPUTot=192 AvailableFeatures=a2,ib Gres=npu:8(S:0-3) RealMemory=1546885
    State=IDLE Partitions=npu,debug Reason=Gres=none
    """
    for line in text.splitlines():
        said: dict[str, str] = {}
        for name, value in control.PAIR.findall(line):
            said.setdefault(name, "" if value in ("(null)", "N/A") else value)
        if said.get("NodeName"):
            yield _node(said)


def _node(said: Mapping[str, str]) -> SlurmNode:
    memory = said.get("RealMemory", "")
    return SlurmNode(
        said["NodeName"],
        _listed(said.get("Partitions", "")),
        _listed(said.get("AvailableFeatures", "")),
        site.gres(said.get("Gres", "")),
        int(memory) if memory.isdecimal() and int(memory) > UNSET_MEMORY_MIB else None,
        said.get("Arch") or None,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def judge_plan(
    plan: SlurmPlan,
    rows: Sequence[PartitionRow],
    nodes: Sequence[SlurmNode],
    variables: Mapping[str, str],
    waived: Collection[str] = (),
) -> tuple[PlacementVerdict, ...]:
    """One for each component; `variables` are those around sbatch, of which one may name the partition, and `waived`
    the gates that a person opened."""
    counts_cards = any(node.cards for node in nodes)
    left = [node for node in nodes if _may_be_given(node, plan.wish.sbatch)]
    required = _required(plan.wish.sbatch)
    variable = variables.get("SBATCH_PARTITION", "")
    found = []
    for component in plan.components:
        kept = [(node.partitions, _resources(node, component, counts_cards)) for node in left]
        pools = [
            NodePool(name, tuple(node for partitions, node in kept if name in partitions))
            for name in _partitions(component, rows, variable)
        ]
        title = " ".join(filter(None, (plan.name, component.role and f"({component.role})")))
        found.append(judge_placement(title, component.job.wanted, len(required) or component.nodes, pools, waived))
    return tuple(found)


def _partitions(component: JobComponent, rows: Sequence[PartitionRow], usual: str) -> tuple[str, ...]:
    """Those that the component may go to: of which one was named, else the default one; all, where none fits."""
    default = (row.partition for row in rows if row.usual and component.place.fits)
    named = _listed(component.place.partition or usual) or tuple(default)
    return tuple(dict.fromkeys(named or (row.partition for row in rows if row.up)))


def _may_be_given(node: SlurmNode, options: Sequence[str]) -> bool:
    """By the options of sbatch that choose nodes; what is not understood leaves all nodes."""
    required = _required(options)
    if required and node.name not in required:
        return False
    for option in options:
        word, _, value = option.partition("=")
        if word == "--exclude" and node.name in _expanded(value):
            return False
        if word == "--constraint" and value.replace("-", "_").isidentifier() and value not in node.features:
            return False
    return True


def _required(options: Sequence[str]) -> list[str]:
    """The nodes that a job gets all of."""
    named = [option.partition("=")[2] for option in options if option.startswith("--nodelist=")]
    return _expanded(named[-1]) if named else []


def _expanded(value: str) -> list[str]:
    """[] for what is a file's name, or no set of nodes."""
    try:
        return chosen([value]) if "/" not in value else []
    except UsageError:
        return []


def _resources(node: SlurmNode, component: JobComponent, counts_cards: bool) -> NodeResources:
    """Where Slurm counts no cards at all, on no node, nothing is known of them."""
    memory = None if node.memory_mib is None else node.memory_mib * MIB
    devices = _count_by_vendor(node, component) if counts_cards else None
    return NodeResources(node.name, devices, node.architecture, memory)


def _count_by_vendor(node: SlurmNode, component: JobComponent) -> dict[str, int]:
    """The component's devices by what it asks for, other vendors' cards by their words."""
    device, cards = component.device, component.job.method.processes
    asked = site.gres(component.place.gres) if component.place.fits else ()
    own = node.cards if component.place.is_gres_said else site.of_device(node.cards, device)
    mine = [one for one in own if not asked or (one.name == asked[0].name and asked[0].type in ("", one.type))]
    others = {vendor: site.of_device(node.cards, vendor) for vendor in VENDORS if vendor != device}
    found = {vendor: sum(one.count for one in theirs if one not in own) for vendor, theirs in others.items()}
    units = asked[0].count if asked else -(-cards // VENDORS[device].chips_per_card)
    found[device] = count_devices(sum(one.count for one in mine), units, cards)
    return {vendor: count for vendor, count in found.items() if count}

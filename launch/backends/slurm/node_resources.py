"""Devices, memory and architecture of the nodes, from `scontrol show node`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.units import MIB
from envcheck.fleet.hosts import resolve_hosts
from envcheck.vendors import VENDORS
from launch.backends.node_requirements import NodePool, NodeResources, PlacementVerdict, count_devices, judge_placement
from launch.backends.slurm import control, site
from launch.backends.slurm.job_plan import JobComponent, SlurmPlan
from launch.backends.slurm.site import NodeCards, PartitionRow

SCONTROL = ("--oneliner", "show", "node")
UNSET_MEMORY_MIB = 1  # RealMemory of a node without RealMemory in slurm.conf


@dataclass(frozen=True)
class SlurmNode:
    """`memory_mib` and `architecture` are None if Slurm does not know them, as for a node that never registered."""

    name: str
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    cards: tuple[NodeCards, ...]
    memory_mib: int | None
    architecture: str | None


def list_nodes() -> tuple[SlurmNode, ...] | str:
    """Return all nodes, or why scontrol failed."""
    answer = control.run_scontrol(*SCONTROL)
    if answer.absent:
        return _("scontrol not found")
    return control.describe_error(answer) if answer.status else tuple(parse_nodes(answer.out))


def parse_nodes(text: str) -> Iterable[SlurmNode]:
    """Yield the nodes in the output of SCONTROL, one per line. The first value of a field is Slurm's; a later one is
    part of an operator's text in Reason:

    NodeName=node01 Arch=aarch64 CPUTot=192 AvailableFeatures=a2,ib Gres=npu:8(S:0-3) RealMemory=1546885
    State=IDLE Partitions=npu,debug Reason=Gres=none
    """
    for line in text.splitlines():
        fields: dict[str, str] = {}
        for name, value in control.PAIR.findall(line):
            fields.setdefault(name, "" if value in ("(null)", "N/A") else value)
        if fields.get("NodeName"):
            yield _parse_node(fields)


def _parse_node(fields: Mapping[str, str]) -> SlurmNode:
    memory = fields.get("RealMemory", "")
    return SlurmNode(
        fields["NodeName"],
        _split_list(fields.get("Partitions", "")),
        _split_list(fields.get("AvailableFeatures", "")),
        site.parse_gres(fields.get("Gres", "")),
        int(memory) if memory.isdecimal() and int(memory) > UNSET_MEMORY_MIB else None,
        fields.get("Arch") or None,
    )


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def judge_plan(
    plan: SlurmPlan,
    rows: Sequence[PartitionRow],
    nodes: Sequence[SlurmNode],
    variables: Mapping[str, str],
    waived: Collection[str] = (),
) -> tuple[PlacementVerdict, ...]:
    """Return whether the nodes meet the requirements of each component. `variables` is the environment of sbatch, which
    may set the partition; `waived` names the preflight checks that the user waived."""
    counts_cards = any(node.cards for node in nodes)
    allowed = [node for node in nodes if _is_eligible(node, plan.options.sbatch)]
    required = _list_required_nodes(plan.options.sbatch)
    variable = variables.get("SBATCH_PARTITION", "")
    found = []
    for component in plan.components:
        eligible = [(node.partitions, _build_node_resources(node, component, counts_cards)) for node in allowed]
        pools = [
            NodePool(name, tuple(node for partitions, node in eligible if name in partitions))
            for name in _list_partitions(component, rows, variable)
        ]
        title = " ".join(filter(None, (plan.name, component.role and f"({component.role})")))
        found.append(judge_placement(title, component.job.wanted, len(required) or component.nodes, pools, waived))
    return tuple(found)


def _list_partitions(component: JobComponent, rows: Sequence[PartitionRow], usual: str) -> tuple[str, ...]:
    """Return the partitions a component may run in: those named, else the default one, else all that are up."""
    default = (row.partition for row in rows if row.usual and component.place.fits)
    named = _split_list(component.place.partition or usual) or tuple(default)
    return tuple(dict.fromkeys(named or (row.partition for row in rows if row.up)))


def _is_eligible(node: SlurmNode, options: Sequence[str]) -> bool:
    """Whether --nodelist, --exclude and --constraint allow the node; constraints with operators are not evaluated."""
    required = _list_required_nodes(options)
    if required and node.name not in required:
        return False
    for option in options:
        word, _unused, value = option.partition("=")
        if word == "--exclude" and node.name in _expand_hosts(value):
            return False
        if word == "--constraint" and value.replace("-", "_").isidentifier() and value not in node.features:
            return False
    return True


def _list_required_nodes(options: Sequence[str]) -> list[str]:
    """Return the nodes of --nodelist, all of which the job gets."""
    named = [option.partition("=")[2] for option in options if option.startswith("--nodelist=")]
    return _expand_hosts(named[-1]) if named else []


def _expand_hosts(value: str) -> list[str]:
    """Return the nodes of a list; [] for a file name or an invalid list."""
    try:
        return resolve_hosts([value]) if "/" not in value else []
    except UsageError:
        return []


def _build_node_resources(node: SlurmNode, component: JobComponent, counts_cards: bool) -> NodeResources:
    """Return what is known of a node; its devices are unknown if no node of the cluster has any in its GRES."""
    memory = None if node.memory_mib is None else node.memory_mib * MIB
    devices = _count_by_vendor(node, component) if counts_cards else None
    return NodeResources(node.name, devices, node.architecture, memory)


def _count_by_vendor(node: SlurmNode, component: JobComponent) -> dict[str, int]:
    """Count the devices of the component's vendor by its --gres, those of other vendors by their GRES names."""
    device, cards = component.device, component.job.method.processes
    asked = site.parse_gres(component.place.gres) if component.place.fits else ()
    own = node.cards if component.place.is_gres_said else site.select_device_cards(node.cards, device)
    mine = [one for one in own if not asked or (one.name == asked[0].name and asked[0].type in ("", one.type))]
    others = {vendor: site.select_device_cards(node.cards, vendor) for vendor in VENDORS if vendor != device}
    found = {vendor: sum(one.count for one in theirs if one not in own) for vendor, theirs in others.items()}
    units = asked[0].count if asked else -(-cards // VENDORS[device].chips_per_card)
    found[device] = count_devices(sum(one.count for one in mine), units, cards)
    return {vendor: count for vendor, count in found.items() if count}

"""Devices, memory and architecture of the nodes from the cluster's API, if the user may list nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import MachineRequirements
from envcheck.core.messages import _
from envcheck.core.units import GIB
from envcheck.vendors import VENDORS
from launch.backends.k8s import cluster_terms
from launch.backends.k8s.api import TIMEOUT_S, Cluster, call_api
from launch.backends.k8s.k8s_options import PodGroup
from launch.backends.node_requirements import NodePool, NodeResources, PlacementVerdict, count_devices, judge_placement
from launch.catalogue.schedulers import kubernetes_names

PAGE = 500  # nodes per request, like kubectl
FORBIDDEN = 403
ARCHITECTURE = "kubernetes.io/arch"


@dataclass(frozen=True)
class K8sNode:
    """`allocatable`: resource → amount for all pods of the node together (memory in bytes)."""

    name: str
    architecture: str | None
    allocatable: Mapping[str, int]


def list_nodes(cluster: Cluster) -> tuple[K8sNode, ...] | str:
    """Return all nodes, or why this user may not list them; StepError if the cluster is not reachable."""
    found: list[K8sNode] = []
    page: str | None = ""
    try:
        while page is not None:
            document = _fetch_node_page(cluster, page)
            found += parse_nodes(document)
            page = document.get("metadata", {}).get("continue") or None
    except EnvcheckError as err:
        if getattr(err.__cause__, "status", None) != FORBIDDEN:
            raise
        return err.message
    return tuple(found) or _("the cluster has no nodes")


def _fetch_node_page(cluster: Cluster, page: str) -> Mapping[str, Any]:
    more = {"_continue": page} if page else {}
    listed = cluster.core.list_node
    answer = call_api(lambda: listed(limit=PAGE, _preload_content=False, _request_timeout=TIMEOUT_S, **more))
    document: Mapping[str, Any] = json.loads(answer.data)
    return document


def parse_nodes(document: Mapping[str, Any]) -> Iterable[K8sNode]:
    """Yield the nodes of a NodeList; invalid quantities are skipped."""
    for node in document.get("items") or ():
        meta, status = node["metadata"], node.get("status") or {}
        machine = (meta.get("labels") or {}).get(ARCHITECTURE) or (status.get("nodeInfo") or {}).get("architecture")
        amounts = {name: _parse_amount(text) for name, text in (status.get("allocatable") or {}).items()}
        allocatable = {name: amount for name, amount in amounts.items() if amount is not None}
        yield K8sNode(str(meta["name"]), machine and cluster_terms.to_uname_machine(machine), allocatable)


def _parse_amount(text: object) -> int | None:
    from kubernetes.utils import parse_quantity

    try:
        return int(parse_quantity(text))
    except (ValueError, ArithmeticError):
        return None


def judge_pods(
    parts: Sequence[PodGroup], nodes: Sequence[K8sNode], waived: Collection[str] = ()
) -> tuple[PlacementVerdict, ...]:
    """Return whether the nodes meet the requirements of each role. Several pods may share a node. `waived` names the
    preflight checks that the user waived."""
    found = []
    for role in dict.fromkeys(part.role for part in parts):
        mine = [part for part in parts if part.role == role]
        count, required = sum(part.count for part in mine), _node_requirements(mine[0])
        pool = NodePool("cluster", tuple(_build_node_resources(node, mine[0], required, count) for node in nodes))
        title = " ".join(filter(None, (mine[0].recipe.name, mine[0].method.method, role and f"({role})")))
        found.append(judge_placement(title, required, count, (pool,), waived))
    return tuple(found)


def _node_requirements(part: PodGroup) -> MachineRequirements:
    """Return the requirements of the job; the pod also selects nodes by the architecture of its image, if known."""
    required = part.job.wanted
    return replace(required, architectures=(part.architecture,)) if part.architecture else required


def _build_node_resources(node: K8sNode, part: PodGroup, required: MachineRequirements, most: int) -> NodeResources:
    units, memory = node.allocatable.get(part.resource, 0), node.allocatable.get("memory")
    cards = part.method.cards or part.method.processes
    usual = {vendor: kubernetes_names(vendor) for vendor in VENDORS if vendor != part.job.device}
    devices = {vendor: node.allocatable.get(names.resource, 0) for vendor, names in usual.items() if names}
    devices[part.job.device] = count_devices(units, part.amount, cards)
    places = [units // part.amount] if part.amount else []
    if memory and required.host_memory_gib:
        places.append(math.floor(memory / (required.host_memory_gib * GIB)))
    return NodeResources(node.name, devices, node.architecture, memory, max(1, min(places, default=most)))

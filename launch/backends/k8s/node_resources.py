"""What a cluster's API tells of its nodes: cards, memory, architecture; for whoever may list them."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Wanted
from envcheck.core.units import GIB
from envcheck.vendors import VENDORS
from launch.backends.k8s import tables
from launch.backends.k8s.api import TIMEOUT_S, Cluster, asked
from launch.backends.k8s.k8s_options import PodGroup
from launch.backends.node_requirements import NodePool, NodeResources, PlacementVerdict, count_devices, judge_placement
from launch.catalogue.schedulers import kubernetes_names

PAGE = 500  # nodes an answer: the API's own clients ask for as many
FORBIDDEN = 403
ARCHITECTURE = "kubernetes.io/arch"


@dataclass(frozen=True)
class K8sNode:
    """`allocatable` are the quantities that pods can have of each resource, all pods together."""

    name: str
    architecture: str | None
    allocatable: Mapping[str, int]


def ask(cluster: Cluster) -> tuple[K8sNode, ...] | str:
    """All nodes, or why this account may not list them; StepError where the cluster does not answer at all."""
    found: list[K8sNode] = []
    page: str | None = ""
    try:
        while page is not None:
            document = _list(cluster, page)
            found += parse(document)
            page = document.get("metadata", {}).get("continue") or None
    except EnvcheckError as err:
        if getattr(err.__cause__, "status", None) != FORBIDDEN:
            raise
        return err.message
    return tuple(found) or "the cluster lists no nodes"


def _list(cluster: Cluster, page: str) -> Mapping[str, Any]:
    more = {"_continue": page} if page else {}
    listed = cluster.core.list_node
    answer = asked(lambda: listed(limit=PAGE, _preload_content=False, _request_timeout=TIMEOUT_S, **more))
    document: Mapping[str, Any] = json.loads(answer.data)
    return document


def parse(document: Mapping[str, Any]) -> Iterable[K8sNode]:
    """The nodes of a NodeList; what is no quantity is left out."""
    for node in document.get("items") or ():
        meta, status = node["metadata"], node.get("status") or {}
        machine = (meta.get("labels") or {}).get(ARCHITECTURE) or (status.get("nodeInfo") or {}).get("architecture")
        amounts = {name: _amount(text) for name, text in (status.get("allocatable") or {}).items()}
        there = {name: amount for name, amount in amounts.items() if amount is not None}
        yield K8sNode(str(meta["name"]), machine and tables.machine(machine), there)


def _amount(text: object) -> int | None:
    from kubernetes.utils import parse_quantity

    try:
        return int(parse_quantity(text))
    except (ValueError, ArithmeticError):
        return None


def judge_pods(
    parts: Sequence[PodGroup], nodes: Sequence[K8sNode], waived: Collection[str] = ()
) -> tuple[PlacementVerdict, ...]:
    """One for each role; the pods of a job without roles need as many places, which may be on one node.  `waived` names
    the gates that a person opened."""
    found = []
    for role in dict.fromkeys(part.role for part in parts):
        mine = [part for part in parts if part.role == role]
        count, required = sum(part.count for part in mine), _required(mine[0])
        pool = NodePool("cluster", tuple(_resources(node, mine[0], required, count) for node in nodes))
        title = " ".join(filter(None, (mine[0].recipe.name, mine[0].method.method, role and f"({role})")))
        found.append(judge_placement(title, required, count, (pool,), waived))
    return tuple(found)


def _required(part: PodGroup) -> Wanted:
    """What the pod's node must have: of the image's architecture, which the pod selects, where it is known."""
    required = part.job.wanted
    return replace(required, architectures=(part.architecture,)) if part.architecture else required


def _resources(node: K8sNode, part: PodGroup, required: Wanted, most: int) -> NodeResources:
    units, memory = node.allocatable.get(part.resource, 0), node.allocatable.get("memory")
    cards = part.method.cards or part.method.processes
    usual = {vendor: kubernetes_names(vendor) for vendor in VENDORS if vendor != part.job.device}
    devices = {vendor: node.allocatable.get(names.resource, 0) for vendor, names in usual.items() if names}
    devices[part.job.device] = count_devices(units, part.amount, cards)
    places = [units // part.amount] if part.amount else []
    if memory and required.host_memory_gib:
        places.append(math.floor(memory / (required.host_memory_gib * GIB)))
    return NodeResources(node.name, devices, node.architecture, memory, max(1, min(places, default=most)))

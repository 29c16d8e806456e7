"""Names of each vendor's cards in Slurm and Kubernetes, from the vendors' scheduler.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from envcheck.core.toml_file import load_own_record
from envcheck.vendors import find_data_files


@dataclass(frozen=True)
class SlurmNames:
    """`gres`: the default name ("": request no cards).  A site's cards belong to this vendor if their name or type
    contains one of `words`, ignoring - and _."""

    gres: str = "gpu"
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobKind:
    """A kind of Kubernetes object that runs a training.

    `operator` is the value of --operator, `version` the apiVersion, `shape` the function that builds its body.  `port`
    is the container port, and `container` the name, that the operator expects.  `frameworks`: () means all.  `index`
    is the field of a pod with its number, `label` the pod label with the job's name, `master` the host name of the
    first pod.  `has_gang`: the operator itself makes the group of pods that Volcano starts together.
    """

    operator: str
    version: str
    kind: str
    plural: str
    shape: str
    container: str
    port: Mapping[str, Any]
    index: str
    label: str
    master: str
    install: str
    replicas: str = ""
    frameworks: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    has_gang: bool = False
    has_kueue: bool = False
    has_ttl: bool = True


@dataclass(frozen=True)
class SuperPod:
    """An annotation for nodes whose `selector` value starts with `prefix`; its value is the job's number of cards."""

    annotation: str
    selector: str
    prefix: str


@dataclass(frozen=True)
class KubernetesNames:
    """`resource`: the resource that a pod requests ("": none); `others`: further ones of device plugins, for
    other models and shares of a card, `cards`: those of whole cards, unless NAME-memory is given; `counts`: its unit;
    `labels`: labels that the vendor's scheduler reads.

    For nodes of the vendor's own scheduler: `machines` are node labels by architecture (as uname names it), `products`
    node labels by a word of the recipe's product; `super_pod` belongs to the job, `kind` is the vendor's own job kind.
    """

    resource: str
    counts: str
    source: str
    others: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    products: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    super_pod: SuperPod | None = None
    kind: JobKind | None = None


@dataclass(frozen=True)
class SchedulerNames:
    """A vendor's scheduler.toml."""

    slurm: SlurmNames = SlurmNames()
    kubernetes: KubernetesNames | None = None


def slurm_names(device: str) -> SlurmNames:
    """Return a vendor's names, Slurm's default "gpu" for a vendor without any."""
    return _load_scheduler_names().get(device, SchedulerNames()).slurm


def kubernetes_names(device: str) -> KubernetesNames | None:
    """Return a vendor's names, None for a vendor without any."""
    return _load_scheduler_names().get(device, SchedulerNames()).kubernetes


def list_vendor_kinds() -> tuple[JobKind, ...]:
    """Return the job kinds that vendors define."""
    names = (one.kubernetes for one in _load_scheduler_names().values())
    return tuple(one.kind for one in names if one and one.kind)


@cache
def _load_scheduler_names() -> Mapping[str, SchedulerNames]:
    return {vendor.name: load_own_record(SchedulerNames, path) for vendor, path in find_data_files("scheduler.toml")}


def list_kubernetes_resources() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names under which Kubernetes offers devices: the usual ones, and those of other models and shares."""
    names = [one.kubernetes for one in _load_scheduler_names().values() if one.kubernetes and one.kubernetes.resource]
    others = frozenset(name for each in names for name in (*each.others, *each.cards))
    return frozenset(each.resource for each in names), others


def list_whole_cards() -> frozenset[str]:
    """Return the names under which Kubernetes offers whole cards."""
    names = [one.kubernetes for one in _load_scheduler_names().values() if one.kubernetes and one.kubernetes.resource]
    return frozenset(name for each in names for name in (each.resource, *each.cards))

"""Names of each vendor's cards in Slurm and Kubernetes, from the vendors' scheduler.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from envcheck.core.toml_file import load_own_record
from envcheck.vendors import find_data_files


@dataclass(frozen=True)
class SlurmNames:
    """`gres`: the default name ("": request no cards).  A site's cards belong to this vendor if their name or type
    contains one of `words`, ignoring - and _."""

    gres: str = "gpu"
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class KubernetesNames:
    """`resource`: the resource that a pod requests ("": none); `counts`: its unit; `labels`: labels that the vendor's
    scheduler reads."""

    resource: str
    counts: str
    source: str
    labels: Mapping[str, str] = field(default_factory=dict)


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


@cache
def _load_scheduler_names() -> Mapping[str, SchedulerNames]:
    return {vendor.name: load_own_record(SchedulerNames, path) for vendor, path in find_data_files("scheduler.toml")}

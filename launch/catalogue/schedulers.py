"""What Slurm and Kubernetes call each vendor's cards, from the vendors' scheduler.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from envcheck.core.toml_file import own_record
from envcheck.vendors import find_data_files


@dataclass(frozen=True)
class SlurmNames:
    """`gres` is the usual name ("": no cards are asked for).  A site's cards are this vendor's where their name or type
    holds one of `words`, - and _ aside."""

    gres: str = "gpu"
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class KubernetesNames:
    """`resource` is what a pod asks for ("": nothing), `counts` what one of them is; `labels` are those that the
    vendor's scheduler reads."""

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
    """Of a vendor that says nothing: Slurm's own usual name."""
    return _tables().get(device, SchedulerNames()).slurm


def kubernetes_names(device: str) -> KubernetesNames | None:
    """None for a vendor that says nothing."""
    return _tables().get(device, SchedulerNames()).kubernetes


@cache
def _tables() -> Mapping[str, SchedulerNames]:
    return {vendor.name: own_record(SchedulerNames, path) for vendor, path in find_data_files("scheduler.toml")}

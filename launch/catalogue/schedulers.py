"""What Slurm and Kubernetes call each vendor's cards, from the vendors' scheduler.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from envcheck.vendors import find_data_files
from launch.catalogue.tables import read


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


def slurm_names(device: str) -> SlurmNames:
    """Of a vendor that says nothing: Slurm's own usual name."""
    table = _tables().get(device, {}).get("slurm", {})
    return SlurmNames(**{**table, "words": tuple(table.get("words", ()))})


def kubernetes_names(device: str) -> KubernetesNames | None:
    """None for a vendor that says nothing."""
    table = _tables().get(device, {}).get("kubernetes")
    return KubernetesNames(**table) if table else None


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return {vendor.name: read(path) for vendor, path in find_data_files("scheduler.toml")}

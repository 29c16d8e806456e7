"""cluster.toml: Kubernetes names of job kinds, container settings and architectures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.core.toml_file import load_own_record


@dataclass(frozen=True)
class JobKind:
    """A job kind of Kubeflow's training operator; `port` is the container port, named as the operator expects."""

    kind: str
    plural: str
    replicas: str
    container: str
    port: Mapping[str, Any]
    frameworks: tuple[str, ...]


@dataclass(frozen=True)
class ClusterTerms:
    """The tables of cluster.toml, which are explained there."""

    kinds: Mapping[str, JobKind]
    pod: Mapping[str, Mapping[str, Any]]
    instead: Mapping[str, str]
    architectures: Mapping[str, str]


def load_job_kinds() -> Mapping[str, JobKind]:
    """Return the job kinds by their names in cluster.toml."""
    return _load_cluster_terms().kinds


def find_job_kind(framework: str) -> JobKind:
    """Return the job kind for a recipe's framework; UsageError for an unknown one, as a user's recipe may have."""
    for kind in load_job_kinds().values():
        if framework in kind.frameworks:
            return kind
    known = join(", ", (name for kind in load_job_kinds().values() for name in kind.frameworks))
    raise UsageError(
        _("framework {framework!r} is not supported with --on k8s", framework=framework),
        _("use a recipe with one of these frameworks: {known}", known=known),
    )


def translate_container_value(field: str, value: str) -> Mapping[str, Any]:
    """Return the pod settings for a value of a recipe's container field; {} if a pod needs none."""
    found: Mapping[str, Any] = _load_cluster_terms().pod.get(field, {}).get(value, {})
    return found


def list_omitted_mounts() -> Mapping[str, str]:
    """Return container settings and mounts that pods do not get, with the reason."""
    return _load_cluster_terms().instead


def to_kubernetes_architecture(machine: str) -> str:
    """Return the value of the label kubernetes.io/arch for a machine name of uname."""
    return _load_cluster_terms().architectures.get(machine, machine)


def to_uname_machine(architecture: str) -> str:
    """Return the machine name of uname for a value of the label kubernetes.io/arch."""
    names = _load_cluster_terms().architectures.items()
    return next((name for name, label in names if label == architecture), architecture)


@cache
def _load_cluster_terms() -> ClusterTerms:
    return load_own_record(ClusterTerms, Path(__file__).with_name("cluster.toml"))

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
from launch.catalogue import schedulers
from launch.catalogue.schedulers import JobKind


@dataclass(frozen=True)
class ClusterTerms:
    """The tables of cluster.toml, which are explained there."""

    kinds: Mapping[str, JobKind]
    pod: Mapping[str, Mapping[str, Any]]
    instead: Mapping[str, str]
    architectures: Mapping[str, str]


def list_job_kinds() -> tuple[JobKind, ...]:
    """Return all job kinds, those of vendors last."""
    return (*_load_cluster_terms().kinds.values(), *schedulers.list_vendor_kinds())


def list_operators() -> tuple[str, ...]:
    """Return the values of --operator; the first is the default."""
    return tuple(dict.fromkeys(kind.operator for kind in list_job_kinds()))


def find_job_kind(framework: str, operator: str = "") -> JobKind:
    """Return the job kind of an operator for a recipe's framework; UsageError if it has none."""
    operator = operator or list_operators()[0]
    kinds = [kind for kind in list_job_kinds() if kind.operator == operator]
    for kind in kinds:
        if not kind.frameworks or framework in kind.frameworks:
            return kind
    known = join(", ", (name for kind in kinds for name in kind.frameworks))
    raise UsageError(
        _("--operator {operator} does not support framework {framework!r}", operator=operator, framework=framework),
        _("use another --operator, or a recipe with one of these frameworks: {known}", known=known),
    )


def find_kind_by_object(version: str, plural: str) -> JobKind | None:
    """Return the job kind of an object in a cluster; None for an unknown one."""
    return next((kind for kind in list_job_kinds() if (kind.version, kind.plural) == (version, plural)), None)


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

"""cluster.toml as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import own_record


@dataclass(frozen=True)
class JobKind:
    """A kind of job of Kubeflow's training operator; `port` is the container's, under the name that it looks for."""

    kind: str
    plural: str
    replicas: str
    container: str
    port: Mapping[str, Any]
    frameworks: tuple[str, ...]


@dataclass(frozen=True)
class ClusterWords:
    """cluster.toml, whose comments explain the tables."""

    kinds: Mapping[str, JobKind]
    pod: Mapping[str, Mapping[str, Any]]
    instead: Mapping[str, str]
    architectures: Mapping[str, str]


def kinds() -> Mapping[str, JobKind]:
    return _cluster().kinds


def kind_of(framework: str) -> JobKind:
    """UsageError for a framework of a recipe of the user's own that nobody told of."""
    for kind in kinds().values():
        if framework in kind.frameworks:
            return kind
    known = ", ".join(name for kind in kinds().values() for name in kind.frameworks)
    raise UsageError(f"no kind of job of Kubernetes is known for the framework {framework!r}", f"known are {known}")


def pod_words(field: str, value: str) -> Mapping[str, Any]:
    """What a word of the recipe's container means in a pod."""
    found: Mapping[str, Any] = _cluster().pod.get(field, {}).get(value, {})
    return found


def instead() -> Mapping[str, str]:
    """What of a container a pod is not given, and why."""
    return _cluster().instead


def architecture(machine: str) -> str:
    """Kubernetes' name of it, as its label kubernetes.io/arch has it."""
    return _cluster().architectures.get(machine, machine)


def machine(architecture: str) -> str:
    """The name that uname has for it."""
    names = _cluster().architectures.items()
    return next((name for name, label in names if label == architecture), architecture)


@cache
def _cluster() -> ClusterWords:
    return own_record(ClusterWords, Path(__file__).with_name("cluster.toml"))

"""A job of the cluster watched to its end, and of its pods which gate was closed or which training failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.errors import StepError
from envcheck.core.language import say as spoken
from envcheck.core.secrets import redact
from envcheck.report import safe
from launch.backends.k8s.api import TIMEOUT_S, Cluster, asked
from launch.backends.k8s.documents import K8sManifest

WATCH_S = 240  # then the watch is opened anew: proxies cut what is silent for longer
TAIL, TAIL_BYTES = 40, 64 << 10  # lines of a log, and how long they may be together
CUTS = 6  # a way to the cluster that is cut so often in a row leads nowhere
JOB_LABEL = "training.kubeflow.org/job-name"  # operator, pkg/apis/kubeflow.org/v1/common_types.go
GATE = "envcheck"


@dataclass(frozen=True)
class ClusterJobEnd:
    """`state` is made, finished, refused (a gate was closed), failed or deleted; `pods` are those that failed."""

    state: str
    code: int
    pods: tuple[Mapping[str, Any], ...] = ()


def followed(cluster: Cluster, job: K8sManifest, say: Callable[[str], None]) -> ClusterJobEnd:
    """Every condition of the job is told once."""
    told: set[str] = set()
    for event in _events(cluster, job):
        if event["type"] == "DELETED":
            say(f"{job.name} was deleted")
            return ClusterJobEnd("deleted", errors.TRAINING_FAILED)
        for condition in (event["object"].get("status") or {}).get("conditions") or ():
            kind = str(condition.get("type"))
            if condition.get("status") != "True" or kind in told:
                continue
            told.add(kind)
            say(f"{kind.lower()}: {safe(redact(str(condition.get('message') or condition.get('reason') or '')))[:300]}")
            if kind == "Succeeded":
                return ClusterJobEnd("finished", errors.FIT)
            if kind == "Failed":
                return _failed(cluster, job, say)
    raise AssertionError("a watch goes on for ever")


def _events(cluster: Cluster, job: K8sManifest) -> Iterator[Mapping[str, Any]]:
    """The job as it is, then each change; a watch that ended, or was cut off, is opened again."""
    group, _, version = job.version.partition("/")
    place = (group, version, cluster.namespace, job.plural)
    cut = 0
    while True:
        try:
            if _gone(cluster, job, place):
                yield {"type": "DELETED", "object": {}}
            for event in _watched(cluster, job, place):
                cut = 0
                yield event
        except StepError as err:
            cut += 1
            if isinstance(err.__cause__, _refused()) or cut > CUTS:
                raise
            time.sleep(cut)


def _refused() -> type[Exception]:
    """What the cluster itself says; everything else is the way to it."""
    from kubernetes.client.exceptions import ApiException

    found: type[Exception] = ApiException
    return found


def _gone(cluster: Cluster, job: K8sManifest, place: tuple[str, ...]) -> bool:
    """Deleted while nobody watched."""
    try:
        asked(lambda: cluster.custom.get_namespaced_custom_object(*place, job.name, _request_timeout=TIMEOUT_S), job)
    except StepError as err:
        if getattr(err.__cause__, "status", None) != 404:
            raise
        return True
    return False


def _watched(cluster: Cluster, job: K8sManifest, place: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    only = {"field_selector": f"metadata.name={job.name}", "timeout_seconds": WATCH_S}
    listed, limit = cluster.custom.list_namespaced_custom_object, (TIMEOUT_S[0], WATCH_S + 30.0)
    stream = iter(cluster.watch().stream(listed, *place, **only, _request_timeout=limit))
    while (event := asked(lambda: next(stream, None), job, cluster.namespace)) is not None:
        if isinstance(event.get("object"), dict):
            yield event


def _failed(cluster: Cluster, job: K8sManifest, say: Callable[[str], None]) -> ClusterJobEnd:
    """The first cause: a closed gate in a pod, else a training's own end."""
    gone = ended_badly(cluster, job.name)
    for pod in gone:
        say(f"{pod['pod']}, {pod['container']}, status {pod['status']}:")
        for line in _log(cluster, pod):  # of the gates our own words
            say(f"  {spoken(line) if pod['container'] == GATE else line}")
    closed = any(pod["container"] == GATE for pod in gone)
    return (
        ClusterJobEnd("refused", errors.UNFIT, tuple(gone))
        if closed
        else ClusterJobEnd("failed", errors.TRAINING_FAILED, tuple(gone))
    )


def ended_badly(cluster: Cluster, name: str) -> list[Mapping[str, Any]]:
    """The job's pods of which a container did: its name, and the status."""
    label = f"{JOB_LABEL}={name}"
    found = asked(
        lambda: cluster.core.list_namespaced_pod(cluster.namespace, label_selector=label, _request_timeout=TIMEOUT_S)
    )
    return [pod for each in found.items if (pod := _ended(each))]


def _ended(pod: Any) -> Mapping[str, Any] | None:
    """The container of the pod that ended badly."""
    status = pod.status
    for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        over = each.state.terminated if each.state else None
        if over and over.exit_code:
            return {"pod": pod.metadata.name, "container": each.name, "status": over.exit_code}
    return None


def _log(cluster: Cluster, pod: Mapping[str, Any]) -> list[str]:
    words = {"container": pod["container"], "tail_lines": TAIL, "limit_bytes": TAIL_BYTES}
    read = cluster.core.read_namespaced_pod_log
    try:
        text = asked(lambda: read(pod["pod"], cluster.namespace, **words, _request_timeout=TIMEOUT_S))
    except errors.EnvcheckError as err:
        return [spoken(f"its log cannot be read: {err.message}")]
    return [safe(redact(line))[:400] for line in str(text).splitlines()]

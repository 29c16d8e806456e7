"""Watch a job to its end, and report which preflight check or training failed in which pod."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.errors import StepError
from envcheck.core.language import translate as spoken
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text
from envcheck.report import safe
from launch.backends.k8s import status
from launch.backends.k8s.api import TIMEOUT_S, Cluster, call_api
from launch.backends.k8s.manifests import K8sManifest
from launch.run.states import FAILED, REFUSED, SUCCEEDED

WATCH_S = 240  # then the watch is renewed: proxies close idle connections
TAIL, TAIL_BYTES = 40, 64 << 10  # of the log of a failed container: lines, bytes
MAX_DISCONNECTS = 6  # consecutive connection failures before following is given up
GATE = "envcheck"
DELETED = "deleted"  # end of a job that someone deleted


@dataclass(frozen=True)
class ClusterJobEnd:
    """`state` is created, succeeded, refused (a preflight check failed), failed or deleted; `pods` are failed pods."""

    state: str
    code: int
    pods: tuple[Mapping[str, Any], ...] = ()


def follow_job(cluster: Cluster, job: K8sManifest, say: Callable[[str], None]) -> ClusterJobEnd:
    """Watch the job until it ends, and report each of its conditions once with `say`."""
    reported: set[str] = set()
    for event in _iterate_events(cluster, job):
        if event["type"] == "DELETED":
            say(_("job {name} was deleted", name=job.name))
            return ClusterJobEnd(DELETED, errors.TRAINING_FAILED)
        for condition in status.list_true_conditions(event["object"].get("status") or {}):
            kind = str(condition["type"])
            if kind in reported:
                continue
            reported.add(kind)
            say(
                _(
                    "{kind}: {reason}",
                    kind=kind.lower(),
                    reason=safe(redact_text(str(condition.get("message") or condition.get("reason") or "")))[:300],
                )
            )
            if kind in status.SUCCESS_CONDITIONS:
                return ClusterJobEnd(SUCCEEDED, errors.SUCCESS)
            if kind == "Failed":
                return _report_failed_pods(cluster, job, say)
    raise AssertionError("_iterate_events never ends")


def _iterate_events(cluster: Cluster, job: K8sManifest) -> Iterator[Mapping[str, Any]]:
    """Yield the job as it is, then each change; a watch that ends or is disconnected is renewed."""
    group, _unused, version = job.version.partition("/")
    place = (group, version, cluster.namespace, job.plural)
    disconnects = 0
    while True:
        try:
            if _is_deleted(cluster, job, place):
                yield {"type": "DELETED", "object": {}}
            for event in _stream_watch_events(cluster, job, place):
                disconnects = 0
                yield event
        except StepError as err:
            disconnects += 1
            if isinstance(err.__cause__, _api_exception_type()) or disconnects > MAX_DISCONNECTS:
                raise
            time.sleep(disconnects)


def _api_exception_type() -> type[Exception]:
    """Return the exception for answers of the API server; all others are connection failures."""
    from kubernetes.client.exceptions import ApiException

    found: type[Exception] = ApiException
    return found


def _is_deleted(cluster: Cluster, job: K8sManifest, place: tuple[str, ...]) -> bool:
    """Whether the job was deleted between two watches."""
    try:
        call_api(
            lambda: cluster.custom.get_namespaced_custom_object(*place, job.name, _request_timeout=TIMEOUT_S),
            job,
            cluster.namespace,
        )
    except StepError as err:
        if getattr(err.__cause__, "status", None) != 404:
            raise
        return True
    return False


def _stream_watch_events(cluster: Cluster, job: K8sManifest, place: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    only = {"field_selector": f"metadata.name={job.name}", "timeout_seconds": WATCH_S}
    listed, limit = cluster.custom.list_namespaced_custom_object, (TIMEOUT_S[0], WATCH_S + 30.0)
    stream = iter(cluster.watch().stream(listed, *place, **only, _request_timeout=limit))
    while (event := call_api(lambda: next(stream, None), job, cluster.namespace)) is not None:
        if isinstance(event.get("object"), dict):
            yield event


def _report_failed_pods(cluster: Cluster, job: K8sManifest, say: Callable[[str], None]) -> ClusterJobEnd:
    """Report failed pods with the end of their logs; a failed preflight check takes precedence over the training."""
    failed = list_failed_pods(cluster, job.pod_selector)
    for pod in failed:
        say(
            _(
                "pod {pod}, container {container}: exit code {status}; log:",
                pod=pod["pod"],
                container=pod["container"],
                status=pod["status"],
            )
        )
        for line in _read_log_tail(cluster, pod):  # the log of the preflight checks has messages of envcheck
            say(f"  {spoken(line) if pod['container'] == GATE else line}")
    closed = any(pod["container"] == GATE for pod in failed)
    return (
        ClusterJobEnd(REFUSED, errors.CHECK_FAILED, tuple(failed))
        if closed
        else ClusterJobEnd(FAILED, errors.TRAINING_FAILED, tuple(failed))
    )


def list_failed_pods(cluster: Cluster, label: str) -> list[Mapping[str, Any]]:
    """Return {pod, container, status} for each pod of the job with a failed container; `status` is the exit code."""
    found = call_api(
        lambda: cluster.core.list_namespaced_pod(cluster.namespace, label_selector=label, _request_timeout=TIMEOUT_S)
    )
    return [pod for each in found.items if (pod := _find_failed_container(each))]


def _find_failed_container(pod: Any) -> Mapping[str, Any] | None:
    """Return the first container of the pod with an exit code other than 0."""
    of_pod = pod.status
    for each in (*(of_pod.init_container_statuses or ()), *(of_pod.container_statuses or ())):
        over = each.state.terminated if each.state else None
        if over and over.exit_code:
            return {"pod": pod.metadata.name, "container": each.name, "status": over.exit_code}
    return None


def _read_log_tail(cluster: Cluster, pod: Mapping[str, Any]) -> list[str]:
    words = {"container": pod["container"], "tail_lines": TAIL, "limit_bytes": TAIL_BYTES}
    read = cluster.core.read_namespaced_pod_log
    try:
        text = call_api(lambda: read(pod["pod"], cluster.namespace, **words, _request_timeout=TIMEOUT_S))
    except errors.EnvcheckError as err:
        return [spoken(_("cannot read the log: {message}", message=err.message))]
    return [safe(redact_text(line))[:400] for line in str(text).splitlines()]

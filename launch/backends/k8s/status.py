"""State of a job from the cluster, cached: `envcheck runs` and every follower query the same API server."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text
from envcheck.report import safe
from launch.backends.k8s import api, cluster_terms
from launch.backends.k8s.api import Cluster
from launch.backends.k8s.k8s_options import K8sOptions
from launch.run.states import FAILED, RUNNING, SUCCEEDED, UNKNOWN

KEPT_S, DEAD_S = 2.0, 30.0  # how long a result is reused, and how long an unreachable cluster is not queried again
TIMEOUT_S = (3.0, 10.0)  # connect, read; a list of runs queries each of them
PENDING, GONE = "pending", "gone"
# Conditions of all job kinds, then the phases of Volcano's jobs, which have no conditions that count.
_OVER = {"Succeeded": SUCCEEDED, "Complete": SUCCEEDED, "Completed": SUCCEEDED, "Failed": FAILED}
SUCCESS_CONDITIONS = tuple(name for name, state in _OVER.items() if state == SUCCEEDED)
_PHASES = {**_OVER, "Aborted": FAILED, "Terminated": FAILED}
_ACTIVE = ("replicatedJobsStatus", "jobsStatus")  # of JobSet and TrainJob: how many pods are active
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEYS = ("kind", "plural", "version", "name", "namespace", "context", "server", "uid")
_unreachable: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True)
class JobReference:
    """The object of a run's record in its cluster; "" for a missing key."""

    kind: str = ""
    plural: str = ""
    version: str = ""
    name: str = ""
    namespace: str = ""
    context: str = ""
    server: str = ""
    uid: str = ""

    @property
    def pod_selector(self) -> str:
        """The selector of the job's pods."""
        kind = cluster_terms.find_kind_by_object(self.version, self.plural)
        return f"{kind.label}={self.name}" if kind else ""

    @property
    def api_path(self) -> tuple[str, ...]:
        """(group, version, namespace, plural), as the client's methods for custom objects take them."""
        group, _unused, version = self.version.partition("/")
        return (group, version, self.namespace, self.plural)


@dataclass(frozen=True)
class ClusterJobStatus:
    """`state` is a constant of this module; `since` is when the job ended, as the cluster formats times."""

    state: str
    reason: str = ""
    since: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the job has ended or was deleted; False if its state is unknown."""
        return self.state in (SUCCEEDED, FAILED, GONE)


def find_job_reference(values: Mapping[str, Any]) -> JobReference | None:
    """Return the job of a record; None for invalid values, as a record from another user may have them."""
    own = values.get("kubernetes")
    texts = {key: own.get(key) for key in _KEYS} if isinstance(own, dict) else {}
    found = JobReference(**{key: text[:300] for key, text in texts.items() if isinstance(text, str)})
    known = cluster_terms.find_kind_by_object(found.version, found.plural)
    return found if known and all(_NAME.fullmatch(name) for name in (found.name, found.namespace)) else None


def list_plurals() -> list[str]:
    """Return the resource names of all job kinds."""
    return [f"{kind.plural}.{kind.version.partition('/')[0]}" for kind in cluster_terms.list_job_kinds()]


def read_job_status(reference: JobReference | None) -> ClusterJobStatus:
    """Return the state of a job; UNKNOWN if the cluster is not reachable or the record has no valid job."""
    if reference is None:
        return ClusterJobStatus(UNKNOWN, _("the record of the run has no valid Kubernetes job"))
    return _query_job_status(reference, int(time.monotonic() / KEPT_S))


def clear_status_cache() -> None:
    """Make the next call of `read_job_status` query the cluster again."""
    _query_job_status.cache_clear()


@functools.lru_cache(maxsize=256)
def _query_job_status(reference: JobReference, _moment: int) -> ClusterJobStatus:
    since, why = _unreachable.get(reference.server, (0.0, ""))
    if why and time.monotonic() - since < DEAD_S:
        return ClusterJobStatus(UNKNOWN, why)
    try:
        cluster = open_job_cluster(reference)
        body = api.call_api(
            lambda: cluster.custom.get_namespaced_custom_object(
                *reference.api_path, reference.name, _request_timeout=TIMEOUT_S
            )
        )
    except EnvcheckError as err:
        if getattr(err.__cause__, "status", None) == 404:
            return ClusterJobStatus(GONE)
        _unreachable[reference.server] = time.monotonic(), err.message
        return ClusterJobStatus(UNKNOWN, err.message)
    found = parse_job_status(body, reference.uid)
    return (
        replace(found, reason=_find_pending_reason(cluster, reference) or found.reason)
        if found.state == PENDING
        else found
    )


def open_job_cluster(reference: JobReference) -> Cluster:
    """Connect to the cluster of a job; StepError if the kubeconfig context now points to another cluster."""
    cluster = _connect_cached(reference.context, reference.namespace)
    if cluster.server != reference.server:
        server, context = redact_text(reference.server), redact_text(reference.context)
        raise StepError(
            _(
                "the job is in cluster {server}, but context {context} is another cluster",
                server=server,
                context=context,
            )
            if context
            else _(
                "the job is in cluster {server}, but the current configuration is for another cluster", server=server
            ),
            _("check the contexts with `kubectl config get-contexts`"),
        )
    return cluster


@functools.lru_cache(maxsize=8)
def _connect_cached(context: str, namespace: str) -> Cluster:
    return api.open_cluster(K8sOptions("", namespace=namespace, context=context))


def parse_job_status(body: Any, uid: str) -> ClusterJobStatus:
    """Return the state of a job object by its conditions; GONE if another job with the same name has replaced it."""
    meta = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(meta, dict) or (uid and meta.get("uid") != uid):
        return ClusterJobStatus(GONE)
    status = body.get("status") or {}
    true = {str(each["type"]): each for each in list_true_conditions(status)}
    for kind, state in _OVER.items():
        if kind in true:
            since = status.get("completionTime") or true[kind].get("lastTransitionTime") or ""
            return ClusterJobStatus(state, _describe_condition(true[kind]) if state == FAILED else "", str(since)[:40])
    if "Running" in true:
        return ClusterJobStatus(RUNNING)
    return ClusterJobStatus(PENDING, _describe_condition(list(true.values())[-1]) if true else "")


def list_true_conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions that are true, with the names of kubeflow's: Volcano has a phase instead, and JobSet says
    only how many pods are active."""
    found = [each for each in status.get("conditions") or () if each.get("status") == "True" and each.get("type")]
    state = status.get("state")
    if isinstance(state, dict) and state.get("phase"):
        over = _PHASES.get(phase := str(state["phase"]))
        name = {SUCCEEDED: "Succeeded", FAILED: "Failed"}.get(over or "", phase)
        return [{**state, "type": name, "reason": state.get("reason") or phase}]
    counts = (each for key in _ACTIVE for each in status.get(key) or () if isinstance(each, dict))
    if any(each.get("active") or each.get("ready") for each in counts):
        found.append({"type": "Running", "reason": "active"})
    return found


def _describe_condition(condition: Mapping[str, Any]) -> str:
    return _clean_line(condition.get("message") or condition.get("reason"))


def _clean_line(text: object) -> str:
    return safe(redact_text(str(text or ""))).replace("\n", " ")[:200]


def _find_pending_reason(cluster: Cluster, reference: JobReference) -> str:
    """Return why a pod of the job is pending, such as no free devices or an image pull error; "" if unknown."""
    label = reference.pod_selector
    listed = cluster.core.list_namespaced_pod
    try:
        pods = api.call_api(lambda: listed(reference.namespace, label_selector=label, _request_timeout=TIMEOUT_S)).items
    except EnvcheckError:
        return ""
    return next(filter(None, map(_explain_pending_pod, pods)), "")


def _explain_pending_pod(pod: Any) -> str:
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return _clean_line(f"{pod.metadata.name}: {each.message or each.reason}")
    for each in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waits = each.state.waiting if each.state else None
        if waits and waits.reason not in (None, "PodInitializing", "ContainerCreating"):
            return _clean_line(f"{pod.metadata.name}: {waits.reason}")
    return ""

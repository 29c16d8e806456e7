"""How a job stands in its cluster, asked seldom: lists of many runs, and followers, ask the same API server."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.secrets import redact
from envcheck.report import safe
from launch.backends.k8s import api
from launch.backends.k8s.api import Cluster
from launch.backends.k8s.k8s_options import K8sOptions

KEPT_S, DEAD_S = 2.0, 30.0  # an answer is as good as new for so long; a cluster that does not answer is not asked again
TIMEOUT_S = (3.0, 10.0)  # to connect, to answer: a list of runs asks for each
WAITS, RUNS, FINISHED, FAILED, GONE, UNTOLD = "waits", "runs", "finished", "failed", "gone", "untold"
_OVER = {"Succeeded": FINISHED, "Failed": FAILED}
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEYS = ("kind", "plural", "version", "name", "namespace", "context", "server", "uid")
_dead: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True)
class JobReference:
    """Which object of which cluster a record means; "" for a key that it has not."""

    kind: str = ""
    plural: str = ""
    version: str = ""
    name: str = ""
    namespace: str = ""
    context: str = ""
    server: str = ""
    uid: str = ""

    @property
    def way(self) -> tuple[str, ...]:
        group, _, version = self.version.partition("/")
        return (group, version, self.namespace, self.plural)


@dataclass(frozen=True)
class ClusterJobStatus:
    """`since` is when it ended, as the cluster writes times."""

    state: str
    reason: str = ""
    since: str = ""

    @property
    def over(self) -> bool:
        return self.state in (FINISHED, FAILED, GONE)


def place(said: Mapping[str, Any]) -> JobReference | None:
    """None for what is none of ours: a record may come from a stranger."""
    own = said.get("kubernetes")
    texts = {key: own.get(key) for key in _KEYS} if isinstance(own, dict) else {}
    found = JobReference(**{key: text[:300] for key, text in texts.items() if isinstance(text, str)})
    group = found.version.partition("/")[0]
    names = (found.name, found.namespace, found.plural, group)
    return found if all(_NAME.fullmatch(name) for name in names) and group == "kubeflow.org" else None


def standing(where: JobReference | None) -> ClusterJobStatus:
    if where is None:
        return ClusterJobStatus(UNTOLD, "the record names no job of a cluster")
    return _asked(where, int(time.monotonic() / KEPT_S))


def forget() -> None:
    """The next answer is a fresh one."""
    _asked.cache_clear()


@functools.lru_cache(maxsize=256)
def _asked(where: JobReference, _moment: int) -> ClusterJobStatus:
    since, why = _dead.get(where.server, (0.0, ""))
    if why and time.monotonic() - since < DEAD_S:
        return ClusterJobStatus(UNTOLD, why)
    try:
        cluster = opened(where)
        body = api.asked(
            lambda: cluster.custom.get_namespaced_custom_object(*where.way, where.name, _request_timeout=TIMEOUT_S)
        )
    except EnvcheckError as err:
        if getattr(err.__cause__, "status", None) == 404:
            return ClusterJobStatus(GONE)
        _dead[where.server] = time.monotonic(), err.message
        return ClusterJobStatus(UNTOLD, err.message)
    found = parse(body, where.uid)
    return replace(found, reason=_held(cluster, where) or found.reason) if found.state == WAITS else found


def opened(where: JobReference) -> Cluster:
    """StepError, too, where the context has come to lead to another cluster: there, the job is nobody's."""
    cluster = _opened(where.context, where.namespace)
    if cluster.server != where.server:
        words = f"the job is in the cluster {where.server}, and {where.context or 'this place'} leads to another"
        raise StepError(redact(words), "kubectl config get-contexts")
    return cluster


@functools.lru_cache(maxsize=8)
def _opened(context: str, namespace: str) -> Cluster:
    return api.opened(K8sOptions("", namespace=namespace, context=context))


def parse(body: Any, uid: str) -> ClusterJobStatus:
    """By its conditions; another job of the name is not ours."""
    meta = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(meta, dict) or (uid and meta.get("uid") != uid):
        return ClusterJobStatus(GONE)
    status = body.get("status") or {}
    true = {str(c.get("type")): c for c in status.get("conditions") or () if c.get("status") == "True"}
    for kind, state in _OVER.items():
        if kind in true:
            since = status.get("completionTime") or true[kind].get("lastTransitionTime") or ""
            return ClusterJobStatus(state, _message(true[kind]) if state == FAILED else "", str(since)[:40])
    if "Running" in true:
        return ClusterJobStatus(RUNS)
    return ClusterJobStatus(WAITS, _message(list(true.values())[-1]) if true else "")


def _message(condition: Mapping[str, Any]) -> str:
    return _line(condition.get("message") or condition.get("reason"))


def _line(text: object) -> str:
    return safe(redact(str(text or ""))).replace("\n", " ")[:200]


def _held(cluster: Cluster, where: JobReference) -> str:
    """Why its first pod that does not run does not: no room, no image."""
    from launch.backends.k8s.follow import JOB_LABEL

    label = f"{JOB_LABEL}={where.name}"
    listed = cluster.core.list_namespaced_pod
    try:
        pods = api.asked(lambda: listed(where.namespace, label_selector=label, _request_timeout=TIMEOUT_S)).items
    except EnvcheckError:
        return ""
    return next(filter(None, map(_why, pods)), "")


def _why(pod: Any) -> str:
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return _line(f"{pod.metadata.name}: {each.message or each.reason}")
    for each in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waits = each.state.waiting if each.state else None
        if waits and waits.reason not in (None, "PodInitializing", "ContainerCreating"):
            return _line(f"{pod.metadata.name}: {waits.reason}")
    return ""

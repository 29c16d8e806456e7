"""Copy the logs of a job's pods: while they grow, and after their end, before the cluster deletes the pods."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError
from launch.backends.k8s import cluster_terms
from launch.backends.k8s.api import Cluster, call_api
from launch.backends.k8s.status import TIMEOUT_S, JobReference

FIRST = "workerlog.0"  # the name that paddle's launcher uses for rank 0, whose log has the steps
FETCH_EVERY_S = 2.0
LINES, BYTES = 20_000, 16 << 20  # limits of one request
OVERLAP_S = 5  # the clocks of the nodes and of this machine differ


class PodLogMirror:
    """Mirrors the log of the master pod into a folder; failed requests are retried at the next call."""

    def __init__(self, cluster: Cluster, reference: JobReference, folder: Path) -> None:
        self.cluster, self.reference, self.file = cluster, reference, folder / FIRST
        self.pod = ""
        self.last: tuple[str, str] = ("", "")
        self.fetched_at: float | None = None

    def fetch_new_lines(self, at_once: bool) -> None:
        """Append new lines to the copy; at most one request per FETCH_EVERY_S unless `at_once`."""
        now = time.monotonic()
        if not at_once and self.fetched_at is not None and now - self.fetched_at < FETCH_EVERY_S:
            return
        span: dict[str, int] = {"tail_lines": LINES}
        if self.last[0] and self.fetched_at is not None:
            span = {"since_seconds": int(now - self.fetched_at) + OVERLAP_S}
        self.fetched_at = now
        with contextlib.suppress(EnvcheckError), self.file.open("a", encoding="utf-8") as file:
            self.pod = self.pod or find_master_pod(self.cluster, self.reference)
            file.writelines(
                f"{line}\n"
                for line in self._select_new_lines(_read_pod_log(self.cluster, self.pod, timestamps=True, **span))
            )

    def _select_new_lines(self, text: str) -> Iterable[str]:
        """Yield the lines after the last known one. Each starts with its time: 2026-01-01T00:00:00.123456789Z."""
        before = self.last
        for line in text.splitlines():
            stamp, _, rest = line.partition(" ")
            second, _, part = stamp.rstrip("Z").partition(".")
            if (at := (second, part.ljust(9, "0"))) > before:
                self.last = at
                yield rest


def find_master_pod(cluster: Cluster, reference: JobReference) -> str:
    """Return the name of the first pod. Pods of a batch Job have a random end, which their list shows."""
    kind = cluster_terms.find_kind_by_object(reference.version, reference.plural)
    assert kind
    name = kind.master.format(name=reference.name).partition(".")[0]
    if "job-completion-index" not in kind.index:
        return name
    listed, label = cluster.core.list_namespaced_pod, reference.pod_selector
    pods = call_api(lambda: listed(cluster.namespace, label_selector=label, _request_timeout=TIMEOUT_S)).items
    names = [str(each.metadata.name) for each in pods if str(each.metadata.name).startswith(f"{name}-")]
    return min(names, default=name)


def _read_pod_log(cluster: Cluster, pod: str, **more: Any) -> str:
    read, space = cluster.core.read_namespaced_pod_log, cluster.namespace
    return str(call_api(lambda: read(pod, space, limit_bytes=BYTES, _request_timeout=TIMEOUT_S, **more)))


def save_logs(cluster: Cluster, reference: JobReference, failed: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Save the logs of the master pod and of failed containers; the cluster deletes them with the pods."""
    wanted: dict[str, tuple[str, dict[str, str]]] = {}
    with contextlib.suppress(EnvcheckError):
        wanted[FIRST] = (find_master_pod(cluster, reference), {})
    for each in failed:
        wanted[f"{each['pod']}.{each['container']}.log"] = (each["pod"], {"container": each["container"]})
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        for name, (pod, more) in wanted.items():
            with contextlib.suppress(EnvcheckError):
                (folder / Path(name).name).write_text(
                    _read_pod_log(cluster, pod, tail_lines=LINES, **more), encoding="utf-8"
                )

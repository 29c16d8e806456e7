"""The logs of a job's pods, brought near: as they grow, and once they are over, while the pods are still there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError
from launch.backends.k8s.api import Cluster, asked
from launch.backends.k8s.status import TIMEOUT_S, JobReference

FIRST = "workerlog.0"  # as paddle's launcher calls it: that one tells the steps
FETCH_EVERY_S = 2.0
LINES, BYTES = 20_000, 16 << 20  # of a log at a time
OVERLAP_S = 5  # clocks of nodes and of this machine differ


class Mirror:
    """The log of the pod that leads, from now on in the folder; what the cluster does not give is tried again."""

    def __init__(self, cluster: Cluster, where: JobReference, folder: Path) -> None:
        self.cluster, self.pod, self.file = cluster, f"{where.name}-master-0", folder / FIRST
        self.last: tuple[str, str] = ("", "")
        self.asked_at: float | None = None

    def fetch(self, at_once: bool) -> None:
        now = time.monotonic()
        if not at_once and self.asked_at is not None and now - self.asked_at < FETCH_EVERY_S:
            return
        span: dict[str, int] = {"tail_lines": LINES}
        if self.last[0] and self.asked_at is not None:
            span = {"since_seconds": int(now - self.asked_at) + OVERLAP_S}
        self.asked_at = now
        with contextlib.suppress(EnvcheckError), self.file.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._new(_read(self.cluster, self.pod, timestamps=True, **span)))

    def _new(self, text: str) -> Iterable[str]:
        """Lines behind the last one: each begins with its time, 2026-01-01T00:00:00.123456789Z."""
        before = self.last
        for line in text.splitlines():
            stamp, _, rest = line.partition(" ")
            second, _, part = stamp.rstrip("Z").partition(".")
            if (at := (second, part.ljust(9, "0"))) > before:
                self.last = at
                yield rest


def _read(cluster: Cluster, pod: str, **more: Any) -> str:
    read, space = cluster.core.read_namespaced_pod_log, cluster.namespace
    return str(asked(lambda: read(pod, space, limit_bytes=BYTES, _request_timeout=TIMEOUT_S, **more)))


def keep(cluster: Cluster, where: JobReference, failed: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """The first pod's, and those of the containers that ended badly: soon the cluster has none of them."""
    wanted: dict[str, tuple[str, dict[str, str]]] = {FIRST: (f"{where.name}-master-0", {})}
    for each in failed:
        wanted[f"{each['pod']}.{each['container']}.log"] = (each["pod"], {"container": each["container"]})
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        for name, (pod, more) in wanted.items():
            with contextlib.suppress(EnvcheckError):
                (folder / Path(name).name).write_text(_read(cluster, pod, tail_lines=LINES, **more), encoding="utf-8")

"""A job of a cluster as a run among the others: `envcheck runs` lists, shows, follows and stops it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError, StepError, UntoldError
from launch.backends.k8s import api, follow, logs
from launch.backends.k8s import record as kept
from launch.backends.k8s import status as stands
from launch.backends.k8s.status import ClusterJobStatus, JobReference
from launch.logs.step import TrainingStep
from launch.run import record
from launch.run.watch import Watch
from launch.runs import waiting
from launch.runs.backends import Logs, Look
from launch.runs.follow import UnwatchedProcesses
from launch.runs.run_state import QUEUED, Run

STOP_S = 60.0  # pods have half a minute to end by themselves
GONE = "the cluster has no such job any more: it was deleted, or cleaned up after its end"


def read(folder: Path, said: dict[str, Any]) -> Run:
    """As it stands now.  What has ended is written down, with the logs: the cluster forgets both."""
    if said["state"] != "running":
        return Run(folder, said["state"], None, said)
    now = stands.standing(where := stands.place(said))
    if where is None or not now.over:
        own = {**said["kubernetes"], "state": now.state, "reason": now.reason}
        return Run(folder, QUEUED if now.state == stands.WAITS else "running", None, {**said, "kubernetes": own})
    done = _over(folder, said, where, now)
    with contextlib.suppress(OSError):  # somebody else's: told, and not written
        record.write(folder, done)
    return Run(folder, done["state"], None, done)


def _over(folder: Path, said: Mapping[str, Any], where: JobReference, now: ClusterJobStatus) -> record.Record:
    if now.state == stands.GONE:
        return kept.ended(said, "lost", "", GONE, ())
    pods: Sequence[Mapping[str, Any]] = ()
    with contextlib.suppress(EnvcheckError):
        cluster = stands.opened(where)
        pods = follow.ended_badly(cluster, where.name) if now.state == stands.FAILED else ()
        logs.keep(cluster, where, pods, folder / "log")
    gated = any(pod["container"] == follow.GATE for pod in pods)
    state = "refused" if gated else now.state
    why = "" if pods or state == "finished" else now.reason
    return {**kept.ended(said, state, now.since, why, pods), "loss": _loss(folder / "log")}


def close(run: Path, begun: dict[str, Any], end: follow.ClusterJobEnd) -> None:
    """What was watched to its end; a job that was deleted under our eyes has failed."""
    state = "failed" if end.state == "deleted" else end.state
    if where := stands.place(begun):
        with contextlib.suppress(EnvcheckError):
            logs.keep(stands.opened(where), where, end.pods, run / "log")
    why = "the job was deleted" if end.state == "deleted" else ""
    record.keep(run, {**kept.ended(begun, state, "", why, end.pods), "loss": _loss(run / "log")})


def _loss(folder: Path) -> list[list[float | None]]:
    steps: list[TrainingStep] = []
    Watch(folder, UnwatchedProcesses(), steps.append).look(final=True)
    return record.losses(steps)


@contextlib.contextmanager
def near(run: Run) -> Iterator[Logs]:
    """Of a job that goes on a copy of its first pod's log, which grows; of one that is over what was kept."""
    where = stands.place(run.said)
    if not run.running or where is None:
        yield run.folder / "log", lambda _: None
        return
    with tempfile.TemporaryDirectory(prefix="envcheck-log-") as folder:
        yield Path(folder), _fetcher(where, Path(folder))


def _fetcher(where: JobReference, folder: Path) -> Callable[[bool], None]:
    """Nothing comes from a cluster that cannot be asked."""
    try:
        return logs.Mirror(stands.opened(where), where, folder).fetch
    except EnvcheckError:
        return lambda _: None


def wait(run: Run, say: Callable[[str], None], look: Look) -> Run:
    """Until its pods run, or it is over."""
    if (now := run.said["kubernetes"]).get("state") == stands.UNTOLD:
        raise UntoldError(
            f"nobody says how the job stands: {now.get('reason')}", "ask again where the cluster answers: kubectl get"
        )
    return waiting.wait(run, lambda now: now.state == QUEUED, standing, say, look)


def standing(run: Run) -> str:
    """'job qwen waits: qwen-master-0: 0/4 nodes are available', 'job qwen runs in default'"""
    own = run.said["kubernetes"]
    why = f": {own['reason']}" if run.running and own.get("reason") else ""
    how = "waits" if run.state == QUEUED else "runs" if run.running else "has ended"
    return f"job {own.get('name')} {how} in {own.get('namespace')}{why}"


def states(run: Run) -> list[str]:
    """Of the pods that ended badly; the others are not counted."""
    pods = run.said["kubernetes"].get("pods")
    return ["failed" for pod in pods if isinstance(pod, dict)] if isinstance(pods, list) else []


def stop(run: Run, look: Look) -> Run:
    """The job is deleted, and what belongs to it; its logs are brought here first."""
    where = stands.place(run.said)
    if where is None or not where.uid:
        raise StepError("the record does not say which job it is", "kubectl get pytorchjobs,paddlejobs")
    cluster = stands.opened(where)
    logs.keep(cluster, where, (), run.folder / "log")
    _deleted(cluster, where)
    done = {**kept.ended(run.said, "interrupted", "", "", ()), "loss": _loss(run.folder / "log")}
    record.keep(run.folder, done)
    return look(run.folder) or run


def _deleted(cluster: api.Cluster, where: JobReference) -> None:
    body = {"preconditions": {"uid": where.uid}, "propagationPolicy": "Background"}
    delete, limit = cluster.custom.delete_namespaced_custom_object, api.TIMEOUT_S
    with _absent():
        api.asked(lambda: delete(*where.way, where.name, body=body, _request_timeout=limit))
    until = time.monotonic() + STOP_S
    while time.monotonic() < until:
        stands.forget()
        if stands.standing(where).state == stands.GONE:
            return
        time.sleep(0.5)
    words = f"the job {where.name} is not gone after {STOP_S:.0f} s"
    raise StepError(words, f"kubectl get {where.plural} {where.name} -n {where.namespace} -o yaml: a finalizer?")


@contextlib.contextmanager
def _absent() -> Iterator[None]:
    """What is not there, or is another job of the name (409), needs no deleting."""
    try:
        yield
    except StepError as err:
        if getattr(err.__cause__, "status", None) not in (404, 409):
            raise

"""Kubernetes jobs in `envcheck runs`: list, show, follow and stop them."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError, StepError, UndeterminedError
from envcheck.core.messages import NOTHING, Message, _
from launch.backends.k8s import api, follow, job_record, pod_logs
from launch.backends.k8s import status as job_status
from launch.backends.k8s.status import ClusterJobStatus, JobReference
from launch.logs.training_step import TrainingStep
from launch.run import record, states
from launch.run.watch import RunWatch
from launch.runs import queue_wait
from launch.runs.backends import LogSource, RunReader
from launch.runs.follow import UnwatchedProcesses
from launch.runs.run_state import Run

STOP_S = 60.0  # the termination grace period of pods is 30 s by default
GONE = _("the job no longer exists in the cluster: it was deleted, or removed after its end")


def read_run(folder: Path, values: dict[str, Any]) -> Run:
    """Return the current state of a run. The end of a job is saved with its logs, because the cluster deletes both."""
    if values["state"] != states.RUNNING:
        return Run(folder, values["state"], None, values)
    now = job_status.read_job_status(reference := job_status.find_job_reference(values))
    if reference is None or not now.is_over:
        own = {**values["kubernetes"], "state": now.state, "reason": now.reason}
        state = states.QUEUED if now.state == job_status.PENDING else states.RUNNING
        return Run(folder, state, None, {**values, "kubernetes": own})
    done = _build_finished_record(folder, values, reference, now)
    with contextlib.suppress(OSError):  # the record of another user: shown, but not saved
        record.write_record(folder, done)
    return Run(folder, done["state"], None, done)


def _build_finished_record(
    folder: Path, values: Mapping[str, Any], reference: JobReference, now: ClusterJobStatus
) -> record.Record:
    if now.state == job_status.GONE:
        return job_record.build_final_record(values, states.LOST, "", GONE, ())
    pods: Sequence[Mapping[str, Any]] = ()
    with contextlib.suppress(EnvcheckError):
        cluster = job_status.open_job_cluster(reference)
        pods = follow.list_failed_pods(cluster, reference.pod_selector) if now.state == states.FAILED else ()
        pod_logs.save_logs(cluster, reference, pods, folder / "log")
    gated = any(pod["container"] == follow.GATE for pod in pods)
    state = states.REFUSED if gated else now.state
    why = "" if pods or state == states.SUCCEEDED else now.reason
    return {**job_record.build_final_record(values, state, now.since, why, pods), "loss": _read_losses(folder / "log")}


def close_run(run: Path, run_record: dict[str, Any], end: follow.ClusterJobEnd) -> None:
    """Save the end of a job that was followed; a job that was deleted meanwhile counts as failed."""
    state = states.FAILED if end.state == follow.DELETED else end.state
    if reference := job_status.find_job_reference(run_record):
        with contextlib.suppress(EnvcheckError):
            pod_logs.save_logs(job_status.open_job_cluster(reference), reference, end.pods, run / "log")
    why = _("the job was deleted") if end.state == follow.DELETED else NOTHING
    record.save_record(
        run, {**job_record.build_final_record(run_record, state, "", why, end.pods), "loss": _read_losses(run / "log")}
    )


def _read_losses(folder: Path) -> list[list[float | str | None]]:
    steps: list[TrainingStep] = []
    RunWatch(folder, UnwatchedProcesses(), steps.append).update_state(final=True)
    return record.list_losses(steps)


@contextlib.contextmanager
def open_logs(run: Run) -> Iterator[LogSource]:
    """Yield the log folder: a temporary copy of the master pod's log while the job runs, then the saved logs."""
    reference = job_status.find_job_reference(run.said)
    if not run.is_running or reference is None:
        yield run.folder / "log", lambda _unused: None
        return
    with tempfile.TemporaryDirectory(prefix="envcheck-log-") as folder:
        yield Path(folder), _make_log_fetcher(reference, Path(folder))


def _make_log_fetcher(reference: JobReference, folder: Path) -> Callable[[bool], None]:
    """Return the function that fetches new lines; it does nothing if the cluster is not reachable."""
    try:
        return pod_logs.PodLogMirror(job_status.open_job_cluster(reference), reference, folder).fetch_new_lines
    except EnvcheckError:
        return lambda _unused: None


def wait_until_started(run: Run, say: Callable[[str], None], look: RunReader) -> Run:
    """Wait until the job runs or has ended, and report each change of state with `say`."""
    if (now := run.said["kubernetes"]).get("state") == states.UNKNOWN:
        raise UndeterminedError(
            _("cannot determine the state of job {job}: {reason}", job=now.get("name"), reason=now.get("reason")),
            _("run the command again when `kubectl cluster-info` works"),
        )
    return queue_wait.wait_while_queued(run, lambda now: now.state == states.QUEUED, describe_status, say, look)


def describe_status(run: Run) -> Message:
    """Return a sentence such as 'job qwen is running in namespace default'."""
    own = run.said["kubernetes"]
    names = {"job": own.get("name"), "namespace": own.get("namespace")}
    reason = own.get("reason") or ""
    if run.state == states.QUEUED:
        if reason:
            return _("job {job} is pending in namespace {namespace}: {reason}", **names, reason=reason)
        return _("job {job} is pending in namespace {namespace}", **names)
    if not run.is_running:
        return _("job {job} in namespace {namespace} has ended", **names)
    if own.get("state") == states.UNKNOWN:
        return _("the state of job {job} in namespace {namespace} is unknown: {reason}", **names, reason=reason)
    return _("job {job} is running in namespace {namespace}", **names)


def list_node_states(run: Run) -> list[str]:
    """Return FAILED for each failed pod of an ended job; other pods are not recorded."""
    pods = run.said["kubernetes"].get("pods")
    return [states.FAILED for pod in pods if isinstance(pod, dict)] if isinstance(pods, list) else []


def stop_run(run: Run, look: RunReader) -> Run:
    """Save the logs of the job, delete it with the objects that it owns, and record it as stopped."""
    reference = job_status.find_job_reference(run.said)
    if reference is None or not reference.uid:
        raise StepError(
            _("the record of the run has no valid Kubernetes job"),
            _("list the jobs with `kubectl get {kinds}`", kinds=",".join(dict.fromkeys(job_status.list_plurals()))),
        )
    cluster = job_status.open_job_cluster(reference)
    pod_logs.save_logs(cluster, reference, (), run.folder / "log")
    _delete_job(cluster, reference)
    done = {
        **job_record.build_final_record(run.said, states.BY_USER, "", "", ()),
        "loss": _read_losses(run.folder / "log"),
    }
    record.save_record(run.folder, done)
    return look(run.folder) or run


def _delete_job(cluster: api.Cluster, reference: JobReference) -> None:
    body = {"preconditions": {"uid": reference.uid}, "propagationPolicy": "Background"}
    delete, limit = cluster.custom.delete_namespaced_custom_object, api.TIMEOUT_S
    with _ignore_absent_job():
        api.call_api(lambda: delete(*reference.api_path, reference.name, body=body, _request_timeout=limit))
    until = time.monotonic() + STOP_S
    while time.monotonic() < until:
        job_status.clear_status_cache()
        if job_status.read_job_status(reference).state == job_status.GONE:
            return
        time.sleep(0.5)
    raise StepError(
        _("job {name} still exists {stop_s:.0f} s after its deletion", name=reference.name, stop_s=STOP_S),
        _(
            "check its finalizers with `kubectl get {plural} {name} -n {namespace} -o yaml`",
            plural=reference.plural,
            name=reference.name,
            namespace=reference.namespace,
        ),
    )


@contextlib.contextmanager
def _ignore_absent_job() -> Iterator[None]:
    """Ignore the errors for a job that is already deleted (404), or replaced by another one of the same name (409)."""
    try:
        yield
    except StepError as err:
        if getattr(err.__cause__, "status", None) not in (404, 409):
            raise

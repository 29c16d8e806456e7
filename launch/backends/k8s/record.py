"""The record of a job that a cluster has: written before it is made, and finished once it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.secrets import redact
from envcheck.core.version import SCHEMA_VERSION
from launch.backends.k8s import documents
from launch.backends.k8s.api import Cluster
from launch.backends.k8s.documents import K8sManifest
from launch.backends.k8s.k8s_options import PodGroup
from launch.programs.container_agent import PRIVATE
from launch.run import record
from launch.run.record import Record
from launch.runs import known
from launch.runs.request_note import RequestNote, remember
from launch.targets.request import TrainRequest

JOB = "job.yaml"
CODES = {
    "finished": errors.FIT,
    "refused": errors.UNFIT,
    "failed": errors.TRAINING_FAILED,
    "interrupted": errors.INTERRUPTED,
    "lost": errors.UNTOLD,
}


def begin(
    request: TrainRequest, cluster: Cluster, every: Sequence[PodGroup], made: Sequence[K8sManifest]
) -> tuple[Path, Record]:
    """A folder with the documents and the record, so that nothing runs that nobody knows."""
    recipe, method = every[0].recipe, every[0].method
    run = _housed(request, recipe.name, documents.yaml(made))
    first = made[0]
    begun: Record = {
        "schema": SCHEMA_VERSION,
        "recipe": recipe.name,
        "model": recipe.models[0],
        "method": method.method,
        "device": every[0].job.device,
        "state": "running",
        "started": record.time_text(datetime.now(timezone.utc)),
        "folder": str(run),
        "plan": {"nodes": method.nodes, "processes": method.processes, "steps": dict(method.steps)},
        "kubernetes": {
            "kind": first.kind,
            "plural": first.plural,
            "version": first.version,
            "name": first.name,
            "namespace": cluster.namespace,
            "context": cluster.context,
            "server": cluster.server,
            "uid": "",
        },
        "said": RequestNote(request.into, request.recipes).as_values(),
    }
    record.keep(run, begun)
    known.remember(run.parent)
    remember(run, RequestNote(request.into, request.recipes))
    return run, begun


def _housed(request: TrainRequest, recipe: str, text: str) -> Path:
    runs = request.runs.expanduser().absolute()
    try:
        runs.mkdir(parents=True, exist_ok=True)
        run = record.folder(runs, recipe, datetime.now(timezone.utc))
        (run / "log").mkdir(PRIVATE)
        (run / JOB).write_text(text, encoding="utf-8")
    except OSError as err:
        raise EnvcheckError(f"{runs}: {(err.strerror or str(err)).lower()}", "name another folder: --runs") from None
    return run


def unmade(run: Path, begun: Record, why: str) -> None:
    status = {"code": StepError.code, "status": None}
    record.keep(run, {**begun, "state": "unstarted", "exit": status, "error": redact(why)})


def made(run: Path, begun: Record, uid: str) -> Record:
    done = {**begun, "kubernetes": {**begun["kubernetes"], "uid": uid}}
    record.keep(run, done)
    return done


def ended(said: Mapping[str, Any], state: str, since: str, error: str, pods: Sequence[Mapping[str, Any]]) -> Record:
    """`state` is one of CODES; `since` the cluster's time of its end, or ""."""
    began, over = _time(str(said.get("started") or "")), _time(since) or datetime.now(timezone.utc)
    seconds = (over - began).total_seconds() if began and over >= began else None
    done: Record = {
        **said,
        "state": state,
        "exit": {"code": CODES[state], "status": None},
        "ended": record.time_text(over),
        "seconds": seconds,
        "error": error or _first(pods),
    }
    done["kubernetes"] = {**said["kubernetes"], "state": state, "pods": [dict(pod) for pod in pods]}
    return done


def _first(pods: Sequence[Mapping[str, Any]]) -> str | None:
    told = [f"{pod['pod']}, {pod['container']}: status {pod['status']}" for pod in pods]
    return "; ".join(told)[:600] or None


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None

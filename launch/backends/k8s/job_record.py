"""The record of a Kubernetes job: written before the job is created, completed after its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError, StepError, describe_os_error
from envcheck.core.messages import Message, _, join
from envcheck.core.version import SCHEMA_VERSION
from launch.backends.k8s import manifests
from launch.backends.k8s.api import Cluster
from launch.backends.k8s.k8s_options import PodGroup
from launch.backends.k8s.manifests import K8sManifest
from launch.programs.container_agent import PRIVATE
from launch.run import record, states
from launch.run.record import Record
from launch.runs import run_index
from launch.runs.request_note import RequestNote, save_note
from launch.targets.train_request import TrainRequest

JOB = "job.yaml"
MAX_PODS = 8  # in the error of a record
_POD_KEYS = ("pod", "container", "status")


def create_record(
    request: TrainRequest, cluster: Cluster, groups: Sequence[PodGroup], documents: Sequence[K8sManifest]
) -> tuple[Path, Record]:
    """Create the run folder with manifests and record before the job, so that every job has a record; return both."""
    recipe, method = groups[0].recipe, groups[0].method
    run = _create_run_folder(request, recipe.name, manifests.render_yaml(documents))
    first = documents[0]
    run_record: Record = {
        "schema": SCHEMA_VERSION,
        "recipe": recipe.name,
        "model": recipe.models[0],
        "method": method.method,
        "device": groups[0].job.device,
        "state": states.RUNNING,
        "started": record.format_time(datetime.now(timezone.utc)),
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
        "options": RequestNote(request.into, request.recipes).as_values(),
    }
    record.save_record(run, run_record)
    run_index.remember_folder(run.parent)
    save_note(run, RequestNote(request.into, request.recipes))
    return run, run_record


def _create_run_folder(request: TrainRequest, recipe: str, text: str) -> Path:
    runs = request.runs.expanduser().absolute()
    try:
        runs.mkdir(parents=True, exist_ok=True)
        run = record.create_folder(runs, recipe, datetime.now(timezone.utc))
        (run / "log").mkdir(PRIVATE)
        (run / JOB).write_text(text, encoding="utf-8")
    except OSError as err:
        raise EnvcheckError(
            _("{folder}: {reason}", folder=runs, reason=describe_os_error(err)),
            _("choose another folder with --runs"),
        ) from None
    return run


def record_submit_failure(run: Path, run_record: Record, why: str) -> None:
    """Save that the job could not be created."""
    status = {"code": StepError.code, "status": None}
    record.save_record(
        run, {**run_record, **states.list_end_values(states.UNSTARTED), "exit": status, **record.list_error_values(why)}
    )


def record_job_uid(run: Path, run_record: Record, uid: str) -> Record:
    """Save the uid of the created job; return the new record."""
    done = {**run_record, "kubernetes": {**run_record["kubernetes"], "uid": uid}}
    record.save_record(run, done)
    return done


def build_final_record(
    run_record: Mapping[str, Any], how: str, since: str, error: str, pods: Sequence[Mapping[str, Any]]
) -> Record:
    """Return the record of an ended job. `how` is a key of states.ENDS; `since` is the end time, "" if unknown."""
    began, over = _parse_time(str(run_record.get("started") or "")), _parse_time(since) or datetime.now(timezone.utc)
    seconds = (over - began).total_seconds() if began and over >= began else None
    done: Record = {
        **run_record,
        **states.list_end_values(how),
        "exit": {"code": states.ENDS[how].code, "status": None},
        "ended": record.format_time(over),
        "seconds": seconds,
        **record.list_error_values(error or _describe_failed_pods(pods)),
    }
    done["kubernetes"] = {
        **run_record["kubernetes"],
        "state": states.ENDS[how].state,
        "pods": [dict(pod) for pod in pods],
    }
    return done


def _describe_failed_pods(pods: Sequence[Mapping[str, Any]]) -> Message | None:
    lines = [
        _("pod {pod}, container {container}: exit code {status}", **{key: pod[key] for key in _POD_KEYS})
        for pod in pods
    ]
    return join("; ", lines[:MAX_PODS]) if lines else None


def _parse_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None

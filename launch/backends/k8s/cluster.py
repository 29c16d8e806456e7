"""A job given to a cluster: made whole or not at all, then followed to its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.language import say as spoken
from envcheck.core.version import SCHEMA_VERSION
from launch import gates
from launch.backends.k8s import node_resources, record, run_entry
from launch.backends.k8s.api import TIMEOUT_S, Cluster, asked, opened
from launch.backends.k8s.documents import K8sManifest
from launch.backends.k8s.follow import ClusterJobEnd, followed
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.backends.node_findings import blocked_by, print_placement, refusal_values
from launch.backends.node_requirements import PlacementVerdict
from launch.targets.request import TrainRequest


def submit(
    request: TrainRequest,
    said: K8sOptions,
    every: tuple[PodGroup, ...],
    made: tuple[K8sManifest, ...],
    packed: tuple[K8sManifest, ...],
) -> int:
    """The exit code of the job, or 0 once it is made with --detach; 1 where no nodes can take its pods."""
    cluster = opened(said)
    nodes = node_resources.ask(cluster)
    if not isinstance(nodes, str):
        print_placement(verdicts := node_resources.judge_pods(every, nodes, _waived(request)))
        if blocked_by(verdicts):
            return _refuse(request, said, verdicts)
    job = made[0]
    run, begun = record.begin(request, cluster, every, made)
    try:
        begun = record.made(run, begun, create(cluster, made, packed))
    except EnvcheckError as err:
        record.unmade(run, begun, err.message)
        raise
    if isinstance(nodes, str):
        _say(f"note: the nodes were not checked before submission: {nodes}")
    where = f"-n {cluster.namespace}"
    what = f"{job.plural}.{job.version.partition('/')[0]} {job.name}"
    _say(f"made  {job.kind} {job.name} in the namespace {cluster.namespace}, {len(made) - 1} more with it")
    _say(f"ends  by: kubectl delete {what} {where}")
    _say(f"seen  by: envcheck runs show {run.name}; follow and stop as well")
    if request.detach:
        return _told(request, cluster, job, ClusterJobEnd("made", errors.FIT), run)
    try:
        end = followed(cluster, job, _say)
    except KeyboardInterrupt:
        _say("the job goes on; the line above ends it")
        raise
    run_entry.close(run, begun, end)
    return _told(request, cluster, job, end, run)


def _waived(request: TrainRequest) -> tuple[str, ...]:
    return tuple(each.name for each in gates.waive.asked(request.waive, request.because, gates.GATES))


def _refuse(request: TrainRequest, said: K8sOptions, verdicts: tuple[PlacementVerdict, ...]) -> int:
    """Nothing was made, and no folder."""
    _say("envcheck: nothing was submitted")
    if request.as_json:
        head = {"schema": SCHEMA_VERSION, "state": "refused", "name": said.name, "exit": {"code": errors.UNFIT}}
        click.echo(json.dumps({**head, **refusal_values(verdicts)}, indent=1))
    return errors.UNFIT


def _say(words: str) -> None:
    """A line of a container's log, which is indented, stays as it is."""
    click.echo(words if words.startswith(" ") else spoken(words), err=True)


def _told(request: TrainRequest, cluster: Cluster, job: K8sManifest, end: ClusterJobEnd, run: Path) -> int:
    if request.as_json:
        named = {"kind": job.kind, "name": job.name, "namespace": cluster.namespace}
        said = {
            "schema": SCHEMA_VERSION,
            "state": end.state,
            "object": named,
            "exit": {"code": end.code},
            "pods": list(end.pods),
        }
        click.echo(json.dumps({**said, "folder": str(run)}, indent=1))
    return end.code


def _shared(cluster: Cluster, packed: K8sManifest) -> None:
    """What other jobs made already is the same: its name is its content's, and it never changes."""
    from kubernetes.client.exceptions import ApiException

    try:
        _made(cluster, packed, packed.body)
    except StepError as err:
        if not (isinstance(err.__cause__, ApiException) and err.__cause__.status == 409):
            raise


def create(cluster: Cluster, made: tuple[K8sManifest, ...], packed: tuple[K8sManifest, ...]) -> str:
    """The job, then what belongs to it as its property, so that it goes with it; where one is refused, none stays.  The
    job's uid."""
    job = made[0]
    told = _made(cluster, job, job.body)
    owner = {"apiVersion": job.version, "kind": job.kind, "name": job.name, "uid": told["metadata"]["uid"]}
    try:
        for document in made[1:]:
            meta = {**document.body["metadata"], "ownerReferences": [owner]}
            _made(cluster, document, {**document.body, "metadata": meta})
        for document in packed:
            _shared(cluster, document)
    except BaseException:
        with contextlib.suppress(EnvcheckError):
            remove(cluster, job)
        raise
    return str(owner["uid"])


def remove(cluster: Cluster, job: K8sManifest) -> None:
    group, _, version = job.version.partition("/")
    place = (group, version, cluster.namespace, job.plural, job.name)
    asked(lambda: cluster.custom.delete_namespaced_custom_object(*place, _request_timeout=TIMEOUT_S), job)


def _made(cluster: Cluster, document: K8sManifest, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object as the cluster keeps it; an unknown field is a refusal, not dropped."""
    said = dict(body)
    group, slash, version = document.version.rpartition("/")
    more: dict[str, Any] = {"field_validation": "Strict", "_request_timeout": TIMEOUT_S}
    if slash:
        place = (group, version, cluster.namespace, document.plural)
        custom = cluster.custom.create_namespaced_custom_object
        found: Mapping[str, Any] = asked(lambda: custom(*place, said, **more), document, cluster.namespace)
        return found
    config = cluster.core.create_namespaced_config_map
    asked(lambda: config(cluster.namespace, said, **more), document, cluster.namespace)
    return {}

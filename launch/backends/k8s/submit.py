"""Submit a job to a cluster, completely or not at all, and follow it to its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.language import translate as spoken
from envcheck.core.messages import Message, _, ngettext
from envcheck.core.version import SCHEMA_VERSION
from launch import gates
from launch.backends.k8s import job_record, node_resources, pod_security, run_entry
from launch.backends.k8s.api import TIMEOUT_S, Cluster, call_api, open_cluster
from launch.backends.k8s.follow import ClusterJobEnd, follow_job
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.backends.k8s.manifests import K8sManifest
from launch.backends.k8s.pod_security import SecurityLevel
from launch.backends.node_findings import blocked_by, print_placement, refusal_values
from launch.backends.node_requirements import PlacementVerdict
from launch.run import states
from launch.targets.train_request import TrainRequest


def submit_job(
    request: TrainRequest,
    options: K8sOptions,
    groups: tuple[PodGroup, ...],
    documents: tuple[K8sManifest, ...],
    payload_documents: tuple[K8sManifest, ...],
    security: SecurityLevel,
) -> int:
    """Submit the job and follow it; return its exit code, 0 with --detach, 1 if no nodes meet its requirements."""
    cluster = open_cluster(options)
    nodes = node_resources.list_nodes(cluster)
    if not isinstance(nodes, str):
        print_placement(verdicts := node_resources.judge_pods(groups, nodes, _list_waived_gates(request)))
        if blocked_by(verdicts):
            return _report_refusal(request, options, verdicts)
    job = documents[0]
    run, run_record = job_record.create_record(request, cluster, groups, documents)
    try:
        run_record = job_record.record_job_uid(run, run_record, create_objects(cluster, documents, payload_documents))
    except EnvcheckError as err:
        job_record.record_submit_failure(run, run_record, err.message)
        raise
    if isinstance(nodes, str):
        _print_message(_("note: the nodes were not checked before submission: {reason}", reason=nodes))
    if security.level == pod_security.PRIVILEGED:
        _print_message(security.describe_need())
    for line in describe_created_job(job, cluster.namespace, run.name, len(documents) - 1):
        _print_message(line)
    if request.detach:
        return _print_outcome(request, cluster, job, ClusterJobEnd("created", errors.SUCCESS), run)
    try:
        end = follow_job(cluster, job, _print_message)
    except KeyboardInterrupt:
        _print_message(_("the job keeps running; to stop it: envcheck runs stop {name}", name=run.name))
        raise
    run_entry.close_run(run, run_record, end)
    return _print_outcome(request, cluster, job, end, run)


def describe_created_job(job: K8sManifest, namespace: str, run: str, owned: int) -> Iterator[Message]:
    """Yield what was created, and how to follow and stop it. `owned` counts the objects that belong to the job."""
    yield ngettext(
        "created {kind} {name} in namespace {namespace} with {count} dependent object",
        "created {kind} {name} in namespace {namespace} with {count} dependent objects",
        owned,
        kind=job.kind,
        name=job.name,
        namespace=namespace,
    )
    yield _("follow it: envcheck runs follow {run}; show it: envcheck runs show {run}", run=run)
    resource = f"{job.plural}.{job.version.partition('/')[0]}"
    yield _(
        "stop it: envcheck runs stop {run}, or kubectl delete {resource} {name} -n {namespace}",
        run=run,
        resource=resource,
        name=job.name,
        namespace=namespace,
    )


def _list_waived_gates(request: TrainRequest) -> tuple[str, ...]:
    return tuple(each.name for each in gates.waive.parse_waivers(request.waive, request.because, gates.GATES))


def _report_refusal(request: TrainRequest, options: K8sOptions, verdicts: tuple[PlacementVerdict, ...]) -> int:
    """Report that the job was not submitted; nothing was created."""
    _print_message(_("envcheck: the job was not submitted"))
    if request.as_json:
        head = {
            "schema": SCHEMA_VERSION,
            "state": states.REFUSED,
            "name": options.name,
            "exit": {"code": errors.CHECK_FAILED},
        }
        click.echo(json.dumps({**head, **refusal_values(verdicts)}, indent=1))
    return errors.CHECK_FAILED


def _print_message(words: str) -> None:
    """Print a message; an indented line is from the log of a container and is not translated."""
    click.echo(words if words.startswith(" ") else spoken(words), err=True)


def _print_outcome(request: TrainRequest, cluster: Cluster, job: K8sManifest, end: ClusterJobEnd, run: Path) -> int:
    if request.as_json:
        named = {"kind": job.kind, "name": job.name, "namespace": cluster.namespace}
        outcome = {
            "schema": SCHEMA_VERSION,
            "state": end.state,
            "object": named,
            "exit": {"code": end.code},
            "pods": list(end.pods),
        }
        click.echo(json.dumps({**outcome, "folder": str(run)}, indent=1))
    return end.code


def _create_shared_object(cluster: Cluster, shared: K8sManifest) -> None:
    """Create an object unless it exists: the name contains the digest, so an existing one has the same content."""
    from kubernetes.client.exceptions import ApiException

    try:
        _create_object(cluster, shared, shared.body)
    except StepError as err:
        if not (isinstance(err.__cause__, ApiException) and err.__cause__.status == 409):
            raise


def create_objects(
    cluster: Cluster, documents: tuple[K8sManifest, ...], payload_documents: tuple[K8sManifest, ...]
) -> str:
    """Create the job, then its objects with the job as owner, so that they are deleted with it; return the job's uid.

    What precedes the job gets its owner afterwards. If one is rejected, all are deleted again."""
    job = documents[0]
    created: list[K8sManifest] = []
    try:
        for document in (each for each in documents if each.precedes_job):
            _create_object(cluster, document, document.body)
            created.append(document)
        made = _create_object(cluster, job, job.body)
        created.append(job)
        owner = {"apiVersion": job.version, "kind": job.kind, "name": job.name, "uid": made["metadata"]["uid"]}
        for document in documents[1:]:
            if document.precedes_job:
                _set_owner(cluster, document, owner)
                continue
            meta = {**document.body["metadata"], "ownerReferences": [owner]}
            _create_object(cluster, document, {**document.body, "metadata": meta})
        for document in payload_documents:
            _create_shared_object(cluster, document)
    except BaseException:
        for document in reversed(created):
            with contextlib.suppress(EnvcheckError):
                delete_object(cluster, document)
        raise
    return str(owner["uid"])


def _set_owner(cluster: Cluster, document: K8sManifest, owner: Mapping[str, Any]) -> None:
    body = {"metadata": {"ownerReferences": [dict(owner)]}}
    place = _locate_object(cluster, document)
    patch = cluster.custom.patch_namespaced_custom_object
    call_api(lambda: patch(*place, body, _request_timeout=TIMEOUT_S), document, cluster.namespace)


def _locate_object(cluster: Cluster, document: K8sManifest) -> tuple[str, ...]:
    group, _unused, version = document.version.partition("/")
    return (group, version, cluster.namespace, document.plural, document.name)


def delete_object(cluster: Cluster, document: K8sManifest) -> None:
    """Delete a job, or what precedes it; the cluster deletes the objects that it owns."""
    place = _locate_object(cluster, document)
    delete = cluster.custom.delete_namespaced_custom_object
    call_api(lambda: delete(*place, _request_timeout=TIMEOUT_S), document, cluster.namespace)


def _create_object(cluster: Cluster, document: K8sManifest, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Create an object and return it as stored; unknown fields are rejected instead of dropped."""
    content = dict(body)
    group, slash, version = document.version.rpartition("/")
    more: dict[str, Any] = {"field_validation": "Strict", "_request_timeout": TIMEOUT_S}
    if slash:
        place = (group, version, cluster.namespace, document.plural)
        custom = cluster.custom.create_namespaced_custom_object
        found: Mapping[str, Any] = call_api(lambda: custom(*place, content, **more), document, cluster.namespace)
        return found
    config = cluster.core.create_namespaced_config_map
    call_api(lambda: config(cluster.namespace, content, **more), document, cluster.namespace)
    return {}

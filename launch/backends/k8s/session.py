"""`envcheck train --on k8s`: show, write, or submit and follow a job."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath

import click

from envcheck.core import errors
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.definition import Job
from envcheck.job.repeat_options import option_word
from envcheck.payload import pyz
from launch import job_files
from launch.backends import submission_checks
from launch.backends.k8s import manifests, patches, pod, pod_scripts, pod_security
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup, build_pod_groups, parse_k8s_options
from launch.backends.k8s.manifests import K8sManifest
from launch.backends.k8s.pod_security import SecurityLevel
from launch.runs.backends import OwnOptions, PreviewOptions
from launch.targets.train_request import TrainRequest

HOST = "host"  # the network of a container that has the node's ports
SERVICES = {  # ports of a node that Kubernetes uses, "Ports and Protocols" of its documentation
    **dict.fromkeys((2379, 2380), "etcd"),
    6443: "kube-apiserver",
    **dict.fromkeys((10248, 10250), "kubelet"),
    **dict.fromkeys((10249, 10256), "kube-proxy"),
    10257: "kube-controller-manager",
    10259: "kube-scheduler",
}
LOCAL_ONLY_OPTIONS = (
    "gates",
    "provision",
    "dashboard",
    "on_event",
    "webhook",
    "metrics_file",
    "no_stop",
    "limits",
    "stop",
)  # options of a run on this machine


def train(request: TrainRequest, own: OwnOptions, shown: PreviewOptions) -> int:
    """Show, write or submit the manifests; return the exit code."""
    _reject_unsupported_options(request, shown)
    restart, request = request.restart, replace(request, restart=0)  # of the whole job, not of a pod
    options, groups = resolve_pod_groups(request, own)
    options = replace(options, restart=restart)
    check_values(request, options, groups)
    changes = patches.load_patches([Path(name) for name in own.get("patch") or ()])
    known = {part.architecture for part in groups}
    if not shown.dry_run:  # both libraries of an image with several architectures may have to be fetched
        known |= {machine for part in groups for machine in part.machines}
    payload = pyz.build_payload(frozenset(known & set(pyz.MACHINES)))
    documents, payload_documents = (
        manifests.build_manifests(request, options, groups, payload, changes),
        manifests.build_payload_manifests(options, payload),
    )
    security = pod_security.judge_security([each.body for each in documents])
    if shown.write:
        return _write_manifests(documents, payload_documents, shown.write, request.yes)
    if shown.dry_run or shown.as_script:
        click.echo(
            _render_json(groups[0].job, documents, payload_documents, security)
            if request.as_json
            else _render_text(documents, payload_documents, security),
            nl=False,
        )
        return errors.SUCCESS
    from launch.backends.k8s import submit  # loads the official client

    return submit.submit_job(request, options, groups, documents, payload_documents, security)


def resolve_pod_groups(request: TrainRequest, own: OwnOptions) -> tuple[K8sOptions, tuple[PodGroup, ...]]:
    """Return the options and the pod groups of the job."""
    groups = build_pod_groups(request, parse_k8s_options({**own, "job_name": "unnamed"}, ""))
    return parse_k8s_options(
        own, _name_job(groups[0].recipe.name, groups[0].method.variant or groups[0].method.method)
    ), groups


def check_values(request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...]) -> None:
    """Raise UsageError for values that no pod could use: the job would wait for its nodes only to be refused."""
    if options.storage.startswith("/"):
        submission_checks.check_storage(options.storage)
    for part in groups:
        command = pod_scripts.build_command(request, part)
        shares_ports = part.recipe.container is not None and part.recipe.container.network == HOST
        taken = {**submission_checks.HOST_SERVICES, **SERVICES} if shares_ports else {}
        submission_checks.check_ports(part.job, command, taken, is_root=True)
        if part.resource and options.resources:
            asked = f"{part.resource}:{part.amount}"
            submission_checks.check_device_count("--resource", asked, part.amount, part.method, part.job.device)
        if request.data is not None:
            folders = pod.list_data_folders(part, options)
            where = _("the pods of recipe {name}", name=part.recipe.name)
            submission_checks.check_mounted_data(PurePosixPath(request.data), folders, where)


def _name_job(recipe: str, method: str) -> str:
    """Return a job name with the current time, so that it is unique; at most 51 characters."""
    stamp = f"{datetime.now(timezone.utc):%m%d-%H%M%S}"
    return f"{pod.dns_name(f'{recipe}-{method}')[:38].rstrip('-')}-{stamp}"


def _reject_unsupported_options(request: TrainRequest, shown: PreviewOptions) -> None:
    for name in LOCAL_ONLY_OPTIONS:
        if getattr(request, name):
            option = option_word(name)
            raise UsageError(
                _("{option} cannot be used with --on k8s", option=option),
                _("remove the option; each pod runs the preflight checks itself"),
            )
    if shown.as_script:
        raise UsageError(
            _("--as-script cannot be used with --on k8s: the job is YAML, not a shell script"),
            _("show the YAML with --dry-run"),
        )
    for text in (*request.settings, *request.extra):
        if redact_text(text) != text:
            raise UsageError(
                _(
                    "{value!r} contains a secret; everyone who can read the namespace can read the manifest",
                    value=redact_text(text)[:80],
                ),
                _("remove it and use a Kubernetes Secret"),
            )


def _render_text(
    documents: tuple[K8sManifest, ...], payload_documents: tuple[K8sManifest, ...], security: SecurityLevel
) -> str:
    size = sum(len(text) for each in payload_documents for text in each.body["binaryData"].values()) * 3 // 4 >> 10
    names = f"{payload_documents[0].name} to {payload_documents[-1].name}"
    head = f"# Not shown: ConfigMaps {names} with envcheck for the preflight checks, {size} KiB; use --write DIR.\n"
    head += f"# {security.describe_need()}\n"
    return head + manifests.render_yaml(documents)


def _render_json(
    job: Job,
    documents: tuple[K8sManifest, ...],
    payload_documents: tuple[K8sManifest, ...],
    security: SecurityLevel,
) -> str:
    document = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "job": job.as_json(),
        "needs": [each.name for each in payload_documents],
        "pod_security": {"level": security.level, "reasons": list(security.reasons)},
        "documents": [dict(each.body) for each in documents],
    }
    return json.dumps(document, indent=1) + "\n"


def _write_manifests(
    documents: tuple[K8sManifest, ...], payload_documents: tuple[K8sManifest, ...], folder: Path, over: bool
) -> int:
    """Write all manifests for `kubectl create -f FOLDER`. `kubectl apply` would fail: it copies each object into an
    annotation, whose limit is 256 KiB."""
    texts = {"envcheck.yaml": manifests.render_yaml(payload_documents), "job.yaml": manifests.render_yaml(documents)}
    job_files.write_files(folder, texts, over)
    click.echo("\n".join(str(folder / name) for name in texts))
    return errors.SUCCESS

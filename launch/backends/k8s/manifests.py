"""The manifests of a job as frozen data, and as YAML."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.payload.content import Payload
from envcheck.payload.unpack import FILE
from launch.backends.k8s import cluster_terms, pod, pod_recipes, pod_scripts
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.targets.train_request import TrainRequest

GROUP = "kubeflow.org"


@dataclass(frozen=True)
class K8sManifest:
    """`plural` is the resource name in API paths; `shared`: jobs of the same envcheck version share the object."""

    plural: str
    body: Mapping[str, Any]
    shared: bool = False

    @property
    def version(self) -> str:
        """The apiVersion, such as kubeflow.org/v1."""
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        """The kind, such as PyTorchJob."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """The name in the metadata."""
        return str(self.body["metadata"]["name"])


def build_manifests(
    request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...], payload: Payload
) -> tuple[K8sManifest, ...]:
    """Return the job first, then the objects that it owns. envcheck itself is in `build_payload_manifests`."""
    texts = {**pod_scripts.build_scripts(request, options, groups), **pod_recipes.build_recipe_files(request, groups)}
    found = [_build_job_manifest(request, options, groups, payload), _build_config_map(options, groups, texts)]
    return tuple(found + ([_build_pod_group_manifest(options, groups)] if options.gang else []))


def build_payload_manifests(options: K8sOptions, payload: Payload) -> tuple[K8sManifest, ...]:
    """Return ConfigMaps with envcheck for the preflight checks. Their names contain its digest, so they never change
    and all jobs can share them."""
    data = payload.data
    parts = [data[at : at + pod.PART_BYTES] for at in range(0, len(data), pod.PART_BYTES)]
    return tuple(
        _build_payload_part(options, pod.list_part_names(payload)[number], number, each)
        for number, each in enumerate(parts)
    )


def _build_payload_part(options: K8sOptions, name: str, number: int, data: bytes) -> K8sManifest:
    meta = {"name": name, **_namespace_metadata(options)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True}
    text = base64.b64encode(data).decode()
    return K8sManifest("configmaps", {**body, "binaryData": {f"{FILE}.{number:02}": text}}, True)


def _namespace_metadata(options: K8sOptions) -> dict[str, str]:
    return {"namespace": options.namespace} if options.namespace else {}


def _build_metadata(options: K8sOptions, groups: tuple[PodGroup, ...]) -> dict[str, Any]:
    return {"name": options.name, **_namespace_metadata(options), "labels": pod.build_labels(groups[0])}


def _build_config_map(options: K8sOptions, groups: tuple[PodGroup, ...], texts: Mapping[str, str]) -> K8sManifest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _build_metadata(options, groups)}
    return K8sManifest("configmaps", {**body, "immutable": True, "data": dict(texts)})


def _build_pod_group_manifest(options: K8sOptions, groups: tuple[PodGroup, ...]) -> K8sManifest:
    """Return the PodGroup for gang scheduling: otherwise half of a job could hold its devices and wait for the rest."""
    total: dict[str, int] = {}
    for part in groups:
        if part.resource:
            total[part.resource] = total.get(part.resource, 0) + part.amount * part.count
    spec = {"minMember": sum(part.count for part in groups), **({"queue": options.queue} if options.queue else {})}
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": _build_metadata(options, groups),
    }
    return K8sManifest("podgroups", {**body, "spec": {**spec, **({"minResources": total} if total else {})}})


def _build_job_manifest(
    request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...], payload: Payload
) -> K8sManifest:
    kind = cluster_terms.find_job_kind(groups[0].recipe.framework)
    policy: dict[str, Any] = {"backoffLimit": 0, "cleanPodPolicy": "Running"}  # ended pods stay, for their logs
    if options.gang:
        queue = {"queue": options.queue} if options.queue else {}
        policy["schedulingPolicy"] = {"minAvailable": sum(part.count for part in groups), **queue}
    if request.deadline_s:
        policy["activeDeadlineSeconds"] = round(request.deadline_s)
    replicas = {
        "Worker" if part.first else "Master": {
            "replicas": part.count,
            "restartPolicy": "Never",
            "template": pod.build_pod_template(part, options, payload),
        }
        for part in groups
    }
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind.kind, "metadata": _build_metadata(options, groups)}
    return K8sManifest(kind.plural, {**body, "spec": {"runPolicy": policy, kind.replicas: replicas}})


def render_yaml(documents: Iterable[K8sManifest]) -> str:
    """Return the documents for `kubectl create -f`; multi-line strings as literal blocks."""
    import yaml as library

    class Dumper(library.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: library.SafeDumper, data: str) -> library.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)

    Dumper.add_representer(str, text)
    dumped: str = library.dump_all(
        [document.body for document in documents], Dumper=Dumper, sort_keys=False, width=10_000, explicit_start=True
    )
    return dumped

"""The manifests of a job as frozen data, and as YAML."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.payload.content import Payload
from envcheck.payload.unpack import FILE
from launch.backends.k8s import cluster_terms, job_bodies, pod, pod_recipes, pod_scripts
from launch.backends.k8s.job_bodies import JobParts
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.backends.k8s.patches import ManifestPatch, apply_patches
from launch.targets.train_request import TrainRequest

KUEUE_LABEL = "kueue.x-k8s.io/queue-name"  # Kueue, pkg/controller/constants
PLURALS = {"ConfigMap": "configmaps", "PodGroup": "podgroups", job_bodies.RUNTIME: "trainingruntimes"}


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

    @property
    def precedes_job(self) -> bool:
        """Whether the job is refused without the object: an operator checks the runtime of a new job."""
        return self.kind == job_bodies.RUNTIME

    @property
    def pod_selector(self) -> str:
        """The selector of a job's pods."""
        kind = cluster_terms.find_kind_by_object(self.version, self.plural)
        return f"{kind.label}={self.name}" if kind else ""


def build_manifests(
    request: TrainRequest,
    options: K8sOptions,
    groups: tuple[PodGroup, ...],
    payload: Payload,
    changes: Sequence[ManifestPatch] = (),
) -> tuple[K8sManifest, ...]:
    """Return the job first, then the objects that it owns, with the user's changes. envcheck itself is in
    `build_payload_manifests`."""
    texts = {**pod_scripts.build_scripts(request, options, groups), **pod_recipes.build_recipe_files(request, groups)}
    kind = groups[0].kind
    bodies = [*_build_job_bodies(request, options, groups, payload), _build_config_map(options, groups, texts)]
    if options.gang and not kind.has_gang:
        bodies.append(_build_pod_group_manifest(options, groups))
    job, *others = apply_patches(bodies, changes)
    return (K8sManifest(kind.plural, job), *(K8sManifest(PLURALS[each["kind"]], each) for each in others))


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


def _build_metadata(options: K8sOptions, groups: tuple[PodGroup, ...], is_job: bool = False) -> dict[str, Any]:
    labels = {**pod.build_labels(groups[0]), **({KUEUE_LABEL: options.kueue} if is_job and options.kueue else {})}
    annotations = pod.build_annotations(groups, options) if is_job else {}
    more = {"annotations": annotations} if annotations else {}
    return {"name": options.name, **_namespace_metadata(options), "labels": labels, **more}


def _build_config_map(options: K8sOptions, groups: tuple[PodGroup, ...], texts: Mapping[str, str]) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _build_metadata(options, groups)}
    return {**body, "immutable": True, "data": dict(texts)}


def _build_pod_group_manifest(options: K8sOptions, groups: tuple[PodGroup, ...]) -> dict[str, Any]:
    """Return the PodGroup for gang scheduling: otherwise half of a job could hold its devices and wait for the rest."""
    total: dict[str, int] = {}
    for part in groups:
        if part.resource:
            total[part.resource] = total.get(part.resource, 0) + part.amount * part.count
    priority = options.placement.priority_class
    spec = {
        "minMember": sum(part.count for part in groups),
        **({"queue": options.queue} if options.queue else {}),
        **({"priorityClassName": priority} if priority else {}),
    }
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": _build_metadata(options, groups),
    }
    return {**body, "spec": {**spec, **({"minResources": total} if total else {})}}


def _build_job_bodies(
    request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...], payload: Payload
) -> tuple[dict[str, Any], ...]:
    annotations = pod.build_annotations(groups, options)
    templates = tuple(pod.build_pod_template(part, options, payload, annotations) for part in groups)
    metadata = _build_metadata(options, groups, is_job=True)
    deadline_s = round(request.deadline_s) if request.deadline_s else None
    return job_bodies.build_job(JobParts(groups[0].kind, options, groups, templates, metadata, deadline_s))


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
        [document.body for document in sorted(documents, key=lambda one: not one.precedes_job)],
        Dumper=Dumper,
        sort_keys=False,
        width=10_000,
        explicit_start=True,
    )
    return dumped

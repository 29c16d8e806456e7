"""The documents of a job, frozen, and their YAML.  Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.payload.content import Payload
from envcheck.payload.unpack import FILE
from launch.backends.k8s import pod, pod_recipes, scripts, tables
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.targets.request import TrainRequest

GROUP = "kubeflow.org"


@dataclass(frozen=True)
class K8sManifest:
    """`plural` is the name of its kind in the API's paths; `shared`: jobs of the same envcheck use it together."""

    plural: str
    body: Mapping[str, Any]
    shared: bool = False

    @property
    def version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def documents(
    request: TrainRequest, said: K8sOptions, every: tuple[PodGroup, ...], payload: Payload
) -> tuple[K8sManifest, ...]:
    """The job first: what belongs to it is made after it, and goes with it.  envcheck itself is `packed`."""
    texts = {**scripts.texts(request, said, every), **pod_recipes.files(request, every)}
    found = [_job(request, said, every, payload), _config(said, every, texts)]
    return tuple(found + ([_group(said, every)] if said.gang else []))


def packed(said: K8sOptions, payload: Payload) -> tuple[K8sManifest, ...]:
    """envcheck for the gates, in parts: the same for every job, named by the whole's content, so that none changes."""
    data = payload.data
    parts = [data[at : at + pod.PART_BYTES] for at in range(0, len(data), pod.PART_BYTES)]
    return tuple(_part(said, pod.part_names(payload)[number], number, each) for number, each in enumerate(parts))


def _part(said: K8sOptions, name: str, number: int, data: bytes) -> K8sManifest:
    meta = {"name": name, **_where(said)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True}
    text = base64.b64encode(data).decode()
    return K8sManifest("configmaps", {**body, "binaryData": {f"{FILE}.{number:02}": text}}, True)


def _where(said: K8sOptions) -> dict[str, str]:
    return {"namespace": said.namespace} if said.namespace else {}


def _meta(said: K8sOptions, every: tuple[PodGroup, ...]) -> dict[str, Any]:
    return {"name": said.name, **_where(said), "labels": pod.labels(every[0])}


def _config(said: K8sOptions, every: tuple[PodGroup, ...], texts: Mapping[str, str]) -> K8sManifest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(said, every)}
    return K8sManifest("configmaps", {**body, "immutable": True, "data": dict(texts)})


def _group(said: K8sOptions, every: tuple[PodGroup, ...]) -> K8sManifest:
    """All pods or none: half of a job would hold its cards and wait for the other half."""
    total: dict[str, int] = {}
    for part in every:
        if part.resource:
            total[part.resource] = total.get(part.resource, 0) + part.amount * part.count
    spec = {"minMember": sum(part.count for part in every), **({"queue": said.queue} if said.queue else {})}
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": _meta(said, every)}
    return K8sManifest("podgroups", {**body, "spec": {**spec, **({"minResources": total} if total else {})}})


def _job(request: TrainRequest, said: K8sOptions, every: tuple[PodGroup, ...], payload: Payload) -> K8sManifest:
    kind = tables.kind_of(every[0].recipe.framework)
    policy: dict[str, Any] = {"backoffLimit": 0, "cleanPodPolicy": "Running"}  # what ended stays, for its log
    if said.gang:
        queue = {"queue": said.queue} if said.queue else {}
        policy["schedulingPolicy"] = {"minAvailable": sum(part.count for part in every), **queue}
    if request.deadline_s:
        policy["activeDeadlineSeconds"] = round(request.deadline_s)
    replicas = {
        "Worker" if part.first else "Master": {
            "replicas": part.count,
            "restartPolicy": "Never",
            "template": pod.template(part, said, payload),
        }
        for part in every
    }
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind.kind, "metadata": _meta(said, every)}
    return K8sManifest(kind.plural, {**body, "spec": {"runPolicy": policy, kind.replicas: replicas}})


def yaml(every: Iterable[K8sManifest]) -> str:
    """As `kubectl create -f` takes them; a text of several lines as one to read."""
    import yaml as library

    class Dumper(library.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: library.SafeDumper, data: str) -> library.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)

    Dumper.add_representer(str, text)
    dumped: str = library.dump_all(
        [document.body for document in every], Dumper=Dumper, sort_keys=False, width=10_000, explicit_start=True
    )
    return dumped

"""A part of a job -> the template of its pods: what the recipe's container is, in Kubernetes' words.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.secrets import blank_value
from envcheck.payload.content import Payload
from installers.recipes.container_spec import capability, size_bytes
from installers.recipes.recipe import Container, Mount
from launch.backends.k8s import scripts, tables
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.catalogue.schedulers import kubernetes_names

Body = dict[str, Any]
GIB = 1 << 30
PART_BYTES = 900_000  # of envcheck.pyz in each ConfigMap, which holds a MiB
REPLICA_INDEX = "metadata.labels['training.kubeflow.org/replica-index']"  # operator, pkg/apis/kubeflow.org/v1/common


def part_names(payload: Payload) -> list[str]:
    """Of the ConfigMaps that hold envcheck.pyz."""
    count = -(-len(payload.data) // PART_BYTES)
    return [f"envcheck-{payload.digest[:16]}-{number}" for number in range(count)]


@dataclass(frozen=True)
class Volume:
    """A volume and where it is mounted; `sub` is a folder in it."""

    name: str
    source: Mapping[str, Any]
    target: str
    read_only: bool = False
    sub: str = ""


def template(part: PodGroup, said: K8sOptions, payload: Payload) -> Body:
    """Both containers see the same: what the gates found is what the training gets."""
    box = part.recipe.container or Container("")
    volumes = tuple(_volumes(part, said, payload))
    common = {
        "image": part.image,
        "env": list(_environment(part, said, box, payload)),
        "volumeMounts": [_mounted(volume) for volume in volumes],
        **({"workingDir": box.workdir} if box.workdir else {}),
        **({"securityContext": {"capabilities": {"add": added}}} if (added := _capabilities(box)) else {}),
    }
    kind = tables.kind_of(part.recipe.framework)
    port = {**kind.port, "containerPort": part.method.port or kind.port["containerPort"]}
    look = {"name": "envcheck", "command": _words("gate.sh", part), "resources": _resources(part), **common}
    work = {"name": kind.container, "command": _words("run.sh", part), "resources": _resources(part, memory=True)}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # else every service of the namespace sets variables, some of a launcher's names
        **({"schedulerName": "volcano"} if said.gang else {}),
        **(
            {"nodeSelector": {"kubernetes.io/arch": tables.architecture(part.architecture)}}
            if part.architecture
            else {}
        ),
        **tables.pod_words("network", box.network),
        "initContainers": [look],
        "containers": [{**work, "ports": [port], **common}],
        "volumes": [{"name": v.name, **v.source} for v in _once(volumes)],
    }
    return {"metadata": _metadata(part, said), "spec": spec}


def labels(part: PodGroup) -> dict[str, str]:
    own = {"app.kubernetes.io/managed-by": "envcheck", "app.kubernetes.io/name": part.recipe.name}
    names = kubernetes_names(part.job.device)
    return {**own, **(names.labels if names else {})}


def _metadata(part: PodGroup, said: K8sOptions) -> Body:
    group = {"scheduling.k8s.io/group-name": said.name} if said.gang else {}  # by it Volcano knows a pod's group
    return {"labels": labels(part), **({"annotations": group} if group else {})}


def _words(file: str, part: PodGroup) -> list[str]:
    """By a login shell: images put their paths into its start files."""
    return ["bash", "-lc", f". {scripts.JOB}/{scripts.PLACE} && exec bash {scripts.JOB}/{scripts.named(file, part)}"]


def _resources(part: PodGroup, memory: bool = False) -> Body:
    """An init container's cards are the ones that the next container gets (Kubernetes, init containers)."""
    found: Body = {"limits": {part.resource: part.amount}} if part.resource else {}
    hardware = part.recipe.hardware
    gib = hardware.host_memory_gib if part.method.host_memory_gib is None else part.method.host_memory_gib
    if memory and gib:
        found["requests"] = {**found.get("limits", {}), "memory": f"{round(gib * 1024)}Mi"}
    return found


def _environment(part: PodGroup, said: K8sOptions, box: Container, payload: Payload) -> Iterator[Body]:
    """What the scripts want to know, then the container's own; the training's own stands in its script."""
    several = part.count > 1
    index: Body = {"valueFrom": {"fieldRef": {"fieldPath": REPLICA_INDEX}}} if several else {"value": "0"}
    yield {"name": "FIRST_RANK", "value": str(part.first)}
    yield {"name": "REPLICA_INDEX", **index}
    yield {"name": "MASTER_NAME", "value": f"{said.name}-master-0"}
    yield {"name": "HOST_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    yield {"name": "KIT_DIGEST", "value": payload.digest}
    for name, value in box.environment.items():
        if blank_value(name, value) != value:
            raise UsageError(
                f"{name} of {part.recipe.name}'s container looks like a secret, and a manifest is no place for one",
                "leave it out of the recipe; the cluster's Secrets are for it",
            )
        yield {"name": name, "value": value}


def _capabilities(box: Container) -> list[str]:
    return [capability(name) for name in box.capabilities]


def _volumes(part: PodGroup, said: K8sOptions, payload: Payload) -> Iterator[Volume]:
    yield Volume("job", {"configMap": {"name": said.name}}, scripts.JOB, True)
    sources = [{"configMap": {"name": name}} for name in part_names(payload)]
    yield Volume("sent", {"projected": {"sources": sources}}, scripts.SENT, True)
    yield Volume("kit", {"emptyDir": {}}, scripts.KIT)
    yield Volume("shm", {"emptyDir": {"medium": "Memory", **_shm(part)}}, "/dev/shm")
    box = part.recipe.container
    mounts = box.mounts if box else (Mount(".", scripts.ROOM),)
    for number, mount in enumerate(mounts):
        if mount.source in tables.instead():
            continue
        if mount.source.startswith("/"):
            # No type: the kubelet then makes nothing of a folder that is not there, and the gates tell what lacks.
            yield Volume(f"host-{number}", {"hostPath": {"path": mount.source}}, mount.target, mount.read_only)
        else:
            sub = "" if mount.source == "." else mount.source
            yield Volume("storage", _storage(part, said), mount.target, mount.read_only, sub)


def _shm(part: PodGroup) -> Body:
    """The recipe's size; without one the volume is bounded by the pod's memory alone."""
    box, gib = part.recipe.container, part.recipe.hardware.shm_gib
    size = size_bytes(box.shm_size) if box and box.shm_size else round((gib or 0) * GIB)
    return {"sizeLimit": f"{-(-size // (1 << 20))}Mi"} if size else {}


def _storage(part: PodGroup, said: K8sOptions) -> Body:
    if not said.storage:
        words = f"{part.recipe.name} works in a folder of the user's, which every pod must see"
        raise UsageError(words, "say --storage CLAIM, a PersistentVolumeClaim, or --storage /FOLDER of every node")
    if said.storage.startswith("/"):
        return {"hostPath": {"path": said.storage, "type": "Directory"}}
    return {"persistentVolumeClaim": {"claimName": said.storage}}


def _mounted(volume: Volume) -> Body:
    more: Body = {"subPath": volume.sub} if volume.sub else {}
    more |= {"readOnly": True} if volume.read_only else {}
    return {"name": volume.name, "mountPath": volume.target, **more}


def _once(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """One volume may be mounted at several places."""
    return tuple({volume.name: volume for volume in volumes}.values())


def dns_name(text: str) -> str:
    """A name that Kubernetes takes, of any text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

"""Build the pod template of a pod group from the recipe's container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.secrets import redact_variable
from envcheck.payload.content import Payload
from installers.recipes.container_spec import normalize_capability, parse_size
from installers.recipes.recipe import Mount, RecipeContainer
from launch.backends.k8s import cluster_terms, pod_scripts
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.catalogue.schedulers import kubernetes_names

Body = dict[str, Any]
GIB = 1 << 30
PART_BYTES = 900_000  # of envcheck.pyz per ConfigMap, whose limit is 1 MiB
STORAGE = "storage"  # the volume with model and data
LOCK_MEMORY = "IPC_LOCK"  # RDMA registers memory, which the default limit of locked memory forbids


def list_part_names(payload: Payload) -> list[str]:
    """Return the names of the ConfigMaps with envcheck.pyz."""
    count = -(-len(payload.data) // PART_BYTES)
    return [f"envcheck-{payload.digest[:16]}-{number}" for number in range(count)]


@dataclass(frozen=True)
class PodVolume:
    """A volume and its mount path `target`; `sub` is a folder in the volume."""

    name: str
    source: Mapping[str, Any]
    target: str
    read_only: bool = False
    sub: str = ""


def build_pod_template(part: PodGroup, options: K8sOptions, payload: Payload, annotations: Mapping[str, str]) -> Body:
    """Return the template. Preflight checks and training get the same image, volumes and environment."""
    container = part.recipe.container or RecipeContainer("")
    volumes = tuple(_list_volumes(part, options, payload))
    common = {
        "image": part.image,
        "env": list(_list_environment(part, options, container, payload)),
        "volumeMounts": [_build_volume_mount(volume) for volume in volumes],
        **({"workingDir": container.workdir} if container.workdir else {}),
        **(
            {"securityContext": {"capabilities": {"add": added}}}
            if (added := _list_capabilities(container, options))
            else {}
        ),
    }
    kind, placement = part.kind, options.placement
    port = {**kind.port, "containerPort": part.method.port or kind.port["containerPort"]}
    preflight = {
        "name": "envcheck",
        "command": _build_command("gate.sh", part),
        "resources": _build_resources(part, options),
        **common,
    }
    training = {
        "name": kind.container,
        "command": _build_command("run.sh", part),
        "resources": _build_resources(part, options, memory=True),
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # otherwise services of the namespace set variables that launchers read
        **({"schedulerName": "volcano"} if options.gang else {}),
        **({"serviceAccountName": placement.service_account} if placement.service_account else {}),
        **({"priorityClassName": placement.priority_class} if placement.priority_class else {}),
        **({"imagePullSecrets": [{"name": name} for name in placement.pull_secrets]} if placement.pull_secrets else {}),
        **({"tolerations": [dict(each) for each in placement.tolerations]} if placement.tolerations else {}),
        **({"nodeSelector": selector} if (selector := select_nodes(part, options)) else {}),
        **(cluster_terms.translate_container_value("network", container.network) if part.method.nodes > 1 else {}),
        "initContainers": [preflight],
        "containers": [{**training, "ports": [port], **common}],
        "volumes": [{"name": v.name, **v.source} for v in _drop_duplicate_volumes(volumes)],
    }
    return {"metadata": _build_metadata(part, options, annotations), "spec": spec}


def select_nodes(part: PodGroup, options: K8sOptions) -> dict[str, str]:
    """Return the node labels that the pods ask for: the architecture if the image has only one, and for a vendor's own
    operator those of the vendor's scheduler. The user's labels win."""
    machine, found = part.architecture, {}
    if machine:
        found["kubernetes.io/arch"] = cluster_terms.to_kubernetes_architecture(machine)
    names = kubernetes_names(part.job.device)
    if names and names.kind == part.kind:
        product = part.method.product or part.recipe.hardware.product
        found |= names.machines.get(machine, {})
        found |= next((labels for word, labels in names.products.items() if word in product), {})
    return {**found, **options.placement.node_selector}


def build_labels(part: PodGroup) -> dict[str, str]:
    """Return the labels of job and pods, with those that the vendor's device plugin and operator need."""
    own = {"app.kubernetes.io/managed-by": "envcheck", "app.kubernetes.io/name": part.recipe.name}
    names = kubernetes_names(part.job.device)
    return {**own, **(names.labels if names else {}), **part.kind.labels}


def build_annotations(groups: Sequence[PodGroup], options: K8sOptions) -> dict[str, str]:
    """Return the annotations of job and pods: the user's, and the size of the super pod that the job fills."""
    found: dict[str, str] = {}
    for part in groups:
        names = kubernetes_names(part.job.device)
        pod = names.super_pod if names and names.kind == part.kind else None
        if pod and select_nodes(part, options).get(pod.selector, "").startswith(pod.prefix):
            found[pod.annotation] = str(sum(each.amount * each.count for each in groups))
    return {**found, **options.placement.annotations}


def _build_metadata(part: PodGroup, options: K8sOptions, annotations: Mapping[str, str]) -> Body:
    has_group = options.gang and not part.kind.has_gang  # how Volcano finds the pod's group
    group = {"scheduling.k8s.io/group-name": options.name} if has_group else {}
    both = {**annotations, **group}
    return {"labels": build_labels(part), **({"annotations": both} if both else {})}


def _build_command(file: str, part: PodGroup) -> list[str]:
    """Return the command with a login shell, because images set PATH in its start files."""
    return [
        "bash",
        "-lc",
        f". {pod_scripts.JOB}/{pod_scripts.PLACE} && exec bash {pod_scripts.JOB}/{pod_scripts.name_script(file, part)}",
    ]


def _build_resources(part: PodGroup, options: K8sOptions, memory: bool = False) -> Body:
    """Return requests and limits. The device limit is the same for both containers: Kubernetes reuses the devices of an
    init container for the next container."""
    name, number = options.placement.rdma
    limits = {**({part.resource: part.amount} if part.resource else {}), **({name: number} if name else {})}
    found: Body = {"limits": limits} if limits else {}
    hardware = part.recipe.hardware
    gib = hardware.host_memory_gib if part.method.host_memory_gib is None else part.method.host_memory_gib
    if memory and gib:
        found["requests"] = {**limits, "memory": f"{round(gib * 1024)}Mi"}
    return found


def _list_environment(
    part: PodGroup, options: K8sOptions, container: RecipeContainer, payload: Payload
) -> Iterator[Body]:
    """Yield the variables that the scripts need, then those of the container; those of the training are in run.sh."""
    several = part.count > 1
    index: Body = {"valueFrom": {"fieldRef": {"fieldPath": part.kind.index}}} if several else {"value": "0"}
    yield {"name": "FIRST_RANK", "value": str(part.first)}
    yield {"name": "REPLICA_INDEX", **index}
    yield {"name": "MASTER_NAME", "value": part.kind.master.format(name=options.name)}
    yield {"name": "HOST_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    yield {"name": "KIT_DIGEST", "value": payload.digest}
    for name, value in container.environment.items():
        if redact_variable(name, value) != value:
            raise UsageError(
                _(
                    "variable {variable} in the container of recipe {recipe} looks like a secret; "
                    "everyone who can read the namespace can read the manifest",
                    variable=name,
                    recipe=part.recipe.name,
                ),
                _("remove it from the recipe and use a Kubernetes Secret"),
            )
        yield {"name": name, "value": value}


def _list_capabilities(container: RecipeContainer, options: K8sOptions) -> list[str]:
    own = [normalize_capability(name) for name in container.capabilities]
    return own + ([LOCK_MEMORY] if options.placement.rdma[0] and LOCK_MEMORY not in own else [])


def _list_volumes(part: PodGroup, options: K8sOptions, payload: Payload) -> Iterator[PodVolume]:
    yield PodVolume("job", {"configMap": {"name": options.name}}, pod_scripts.JOB, True)
    sources = [{"configMap": {"name": name}} for name in list_part_names(payload)]
    yield PodVolume("sent", {"projected": {"sources": sources}}, pod_scripts.SENT, True)
    yield PodVolume("kit", {"emptyDir": {}}, pod_scripts.KIT)
    limit = _build_shm_limit(part)
    if limit or part.method.processes > 1:  # the default of 64 MiB is enough for a single process
        yield PodVolume("shm", {"emptyDir": {"medium": "Memory", **limit}}, "/dev/shm")
    yield from _list_storage_volumes(part, options)


def _list_storage_volumes(part: PodGroup, options: K8sOptions) -> Iterator[PodVolume]:
    """Yield the mounts of the recipe: folders of the nodes, and those below the storage of the job."""
    container = part.recipe.container
    mounts = container.mounts if container else (Mount(".", pod_scripts.DEFAULT_WORKDIR),)
    for number, mount in enumerate(mounts):
        if mount.source in cluster_terms.list_omitted_mounts():
            continue
        if mount.source.startswith("/"):
            if not options.placement.has_host_folders:
                continue
            # Without a type the kubelet does not check the folder; the preflight checks report what is missing.
            yield PodVolume(f"host-{number}", {"hostPath": {"path": mount.source}}, mount.target, mount.read_only)
        else:
            sub = "" if mount.source == "." else mount.source
            yield PodVolume(STORAGE, _build_storage_source(part, options), mount.target, mount.read_only, sub)


def list_data_folders(part: PodGroup, options: K8sOptions) -> tuple[str, ...]:
    """Return the folders of the pod that are in the job's storage."""
    volumes = _list_storage_volumes(part, options)
    return tuple(volume.target for volume in volumes if volume.name == STORAGE)


def _build_shm_limit(part: PodGroup) -> Body:
    """Return the size limit of /dev/shm from the recipe; without one only the memory of the pod limits it."""
    container, gib = part.recipe.container, part.recipe.hardware.shm_gib
    size = parse_size(container.shm_size) if container and container.shm_size else round((gib or 0) * GIB)
    return {"sizeLimit": f"{-(-size // (1 << 20))}Mi"} if size else {}


def _build_storage_source(part: PodGroup, options: K8sOptions) -> Body:
    if not options.storage:
        raise UsageError(
            _("recipe {name} needs a folder that all pods share", name=part.recipe.name),
            _("specify a PersistentVolumeClaim with --storage NAME, or a host folder with --storage /PATH"),
        )
    if options.storage.startswith("/"):
        return {"hostPath": {"path": options.storage, "type": "Directory"}}
    return {"persistentVolumeClaim": {"claimName": options.storage}}


def _build_volume_mount(volume: PodVolume) -> Body:
    more: Body = {"subPath": volume.sub} if volume.sub else {}
    more |= {"readOnly": True} if volume.read_only else {}
    return {"name": volume.name, "mountPath": volume.target, **more}


def _drop_duplicate_volumes(volumes: tuple[PodVolume, ...]) -> tuple[PodVolume, ...]:
    """Return each volume once; a volume can have several mounts."""
    return tuple({volume.name: volume for volume in volumes}.values())


def dns_name(text: str) -> str:
    """Return a text as a valid Kubernetes name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

"""Rules about the pods of Kubernetes: the devices and the shared memory that a container gets, and what it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import warn
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _, verbatim
from envcheck.lint.rules.containers import (
    LEAST_SHM_MIB,
    find_small_container_memory,
    parse_size_mib,
    refuse_processes,
)
from envcheck.scripts.config_files import list_yaml_documents
from envcheck.scripts.interpreter.kubernetes import Fields, find_pods, read_container_shell, read_items
from envcheck.scripts.interpreter.yaml_nodes import YamlReader
from envcheck.scripts.training_jobs import find_jobs
from launch.catalogue.schedulers import list_kubernetes_resources, list_whole_cards


@dataclass(frozen=True)
class PodContainer:
    """A container of a pod with devices: their number, and the nodes around it."""

    reader: YamlReader
    pod: Fields
    fields: Fields
    devices: int
    limit: ShellWord


def _list_pod_containers(context: LintContext) -> Iterator[PodContainer]:
    """Yield the containers whose number of devices is known."""
    for config in context.configs:
        if config.family != "kubernetes" or config.error:
            continue
        text = config.block.raw.decode("utf-8", "replace")
        reader = YamlReader(config.block, text)
        for pod in (pod for root in list_yaml_documents(text) for pod in find_pods(reader, root)):
            for node in read_items(pod, "containers"):
                yield from _read_container(reader, pod, node)


def _read_container(reader: YamlReader, pod: Fields, node: Any) -> Iterator[PodContainer]:
    fields = reader.read_fields(node)
    given = reader.read_fields(fields["resources"][1]) if "resources" in fields else {}
    limits = reader.read_fields(given["limits"][1]) if "limits" in given else {}
    whole = list_whole_cards()
    shares = list_kubernetes_resources()[1] - whole | {f"{name}-memory" for name in whole}
    values = [limits[name][1] for name in limits if name in whole]
    if values and shares.isdisjoint(limits) and all(map(_is_count, values)):
        yield PodContainer(reader, pod, fields, sum(int(each.value) for each in values), reader.make_word(values[0]))
    if limits and "claims" not in given and not any("/" in name for name in limits) and "name" in fields:
        yield PodContainer(reader, pod, fields, 0, reader.make_word(fields["name"][1]))


def _is_count(node: Any) -> bool:
    return node.id == "scalar" and re.fullmatch(r"[1-9]\d{0,3}", node.value) is not None


def _list_jobs(container: PodContainer) -> list[TrainingJob]:
    """The trainings that its command starts."""
    return find_jobs(read_container_shell(container.reader, container.fields, container.limit.start), ())


def find_pod_processes(context: LintContext) -> Iterator[Remark]:
    """Find launchers that start more processes than their container has devices."""
    for container in _list_pod_containers(context):
        for job in _list_jobs(container):
            processes = job.processes_per_node or 0
            if job.is_training and processes > container.devices > 0:
                place = job.find_launch_value("processes") or container.limit
                yield refuse_processes(place, processes, container.devices)


def find_missing_devices(context: LintContext) -> Iterator[Remark]:
    """Find containers that train and get no devices."""
    for container in _list_pod_containers(context) if context.device != "cpu" else ():
        if not container.devices and any((job.processes_per_node or 0) > 1 for job in _list_jobs(container)):
            seen = _("the container requests no devices: the training finds none")
            yield warn(container.limit, seen, _("Request them under resources.limits."))


def find_small_shared_memory(context: LintContext) -> Iterator[Remark]:
    """Find containers with devices and the engine's default of shared memory, or little more."""
    yield from find_small_container_memory(context)
    for container in _list_pod_containers(context):
        ipc = container.pod.get("hostIPC")
        if container.devices < 2 or (ipc is not None and ipc[1].value == "true"):
            continue
        mounts = [container.reader.read_fields(each) for each in read_items(container.fields, "volumeMounts")]
        if "volumeMounts" in container.fields and container.fields["volumeMounts"][1].id != "sequence":
            continue
        own = next((each for each in mounts if _read_scalar(each, "mountPath").rstrip("/") == "/dev/shm"), None)
        if own is None:
            seen = _(
                "{name} is missing: the default 64 MB of shared memory is too small for data loaders and collectives",
                name="/dev/shm",
            )
            do = _("Mount a volume with {volume} at /dev/shm.", volume="emptyDir: {medium: Memory}")
            yield warn(container.limit, seen, do)
        else:
            yield from _judge_size(container, _read_scalar(own, "name"))


def _judge_size(container: PodContainer, name: str) -> Iterator[Remark]:
    """The limit of the volume."""
    for volume in read_items(container.pod, "volumes"):
        fields = container.reader.read_fields(volume)
        if _read_scalar(fields, "name") == name and "emptyDir" in fields:
            given = container.reader.read_fields(fields["emptyDir"][1]).get("sizeLimit")
            word = container.reader.make_word(given[1]) if given and given[1].id == "scalar" else None
            size = parse_size_mib(word.text) if word is not None else None
            if word is not None and size is not None and size < LEAST_SHM_MIB:
                seen = _("{size} of shared memory is too small for data loaders and collectives", size=word.text)
                yield warn(word, seen, verbatim("sizeLimit: 64Gi"))


def _read_scalar(fields: Fields, name: str) -> str:
    return str(fields[name][1].value) if name in fields and fields[name][1].id == "scalar" else ""

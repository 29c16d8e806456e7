"""Rules about manifests of Kubernetes and compose files: what the API server, the operators and compose reject."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, replace_span
from envcheck.core.lint.script_model import UNKNOWN, Remark
from envcheck.core.messages import _
from envcheck.core.toml_file import load_own_record
from envcheck.lint.context import name_tables
from envcheck.scripts.config_files import list_yaml_documents
from envcheck.scripts.interpreter.kubernetes import DEPTH, Fields, find_pods, read_items
from envcheck.scripts.interpreter.yaml_nodes import ITEMS, YamlReader

LEAST_MEMORY = 1 << 20  # bytes with which a container starts
MOST_FILES = 1000  # of a folder in which other compose files are searched
_NAMED_VOLUME = re.compile(r"([A-Za-z0-9][\w.-]+):/")  # one letter is a drive of Windows
_COMPOSE_FILE = re.compile(r"(?:docker-)?compose[\w.-]*\.ya?ml")
_PLAIN_GROUPS = ("v1", "apps", "batch", "extensions", "kubeflow.org", "ray.io")


@dataclass(frozen=True)
class ManifestTables:
    """The contents of data/manifests.toml."""

    groups: Mapping[str, tuple[str, ...]]
    containers: Mapping[str, str]
    plain: frozenset[str]


@cache
def load_manifest_tables() -> ManifestTables:
    return load_own_record(ManifestTables, name_tables.FOLDER / "manifests.toml")


def find_rejected_manifests(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
        if config.family in _JUDGES and not config.error:
            text = config.block.raw.decode("utf-8", "replace")
            for root in list_yaml_documents(text):
                yield from _JUDGES[config.family](context, YamlReader(config.block, text), root)


def _judge_kubernetes(_context: LintContext, reader: YamlReader, root: Any) -> Iterator[Remark]:
    fields = reader.read_fields(root)
    kind, version = _read_text(fields, "kind"), _read_text(fields, "apiVersion")
    groups, group = load_manifest_tables().groups.get(kind, ()), version.partition("/")[0]
    if groups and group in _PLAIN_GROUPS and group not in groups:
        seen = _("apiVersion {version} has no kind {kind}: Kubernetes rejects it", version=version, kind=kind)
        place = reader.make_word(fields["apiVersion"][1])
        of_group = _("Use the version of {group} that the cluster has.", group=groups[0])
        yield fail(place, seen, _("Write apiVersion: v1.") if groups[0] == "v1" else of_group)
    if groups and group in groups:
        yield from _judge_types(reader, root, 0, set())
    required = load_manifest_tables().containers.get(f"{group}/{kind}", "")
    claimed = _list_claims(reader, fields)
    for pod in find_pods(reader, root):
        containers = read_items(pod, "containers")
        if not any("image" in reader.read_fields(each) for each in containers):
            continue  # a patch of another manifest
        yield from _judge_restart(reader, pod, kind if version.startswith("batch/") else "")
        if _has_all_volumes(reader, fields, pod):
            mounting = [*containers, *read_items(pod, "initContainers")]
            yield from _judge_volumes(reader, mounting, claimed | _list_volumes(reader, pod))
        names = [reader.read_fields(each).get("name") for each in containers]
        if required and names and names[0] and not any(name and name[1].value == required for name in names):
            place = reader.make_word(names[0][1])
            seen = _("the operator of {kind} needs a container named {name}: it rejects the job", kind=kind,
                     name=required)  # fmt: skip
            yield fail(place, seen, _("Rename the container that trains."), replace_span(place, required))
        for container in (*containers, *read_items(pod, "initContainers")):
            yield from _judge_container(reader, reader.read_fields(container))


def _judge_types(reader: YamlReader, node: Any, depth: int, read: set[int]) -> Iterator[Remark]:
    """Fields that are numbers or true or false, and have quotes here; a node that aliases repeat is read once."""
    if depth > DEPTH or node.id == "scalar" or id(node) in read:
        return
    read.add(id(node))
    if node.id == "sequence":
        for item in node.value[:ITEMS]:
            yield from _judge_types(reader, item, depth + 1, read)
        return
    for name, (_key, value) in reader.read_fields(node).items():
        quoted = value.id == "scalar" and value.style in ("'", '"')
        if name in load_manifest_tables().plain and quoted and re.fullmatch(r"true|false|\d+", value.value):
            place = reader.make_word(value)
            seen = _("{field} is text because of its quotes: Kubernetes rejects it", field=name)
            yield fail(place, seen, _("Remove the quotes."))
        elif name not in _FREE_FIELDS:
            yield from _judge_types(reader, value, depth + 1, read)


_FREE_FIELDS = frozenset((  # of names that users choose, with text as their values
    "metadata", "annotations", "labels", "data", "env", "nodeSelector", "matchLabels", "selector", "parameters",
    "rayStartParams",
))  # fmt: skip


def _judge_restart(reader: YamlReader, pod: Fields, kind: str) -> Iterator[Remark]:
    """Jobs restart no pod always, which is the default."""
    policy = _read_text(pod, "restartPolicy")
    if kind == "Job" and policy not in ("Never", "OnFailure") and UNKNOWN not in policy and "{" not in policy:
        key, value = pod.get("restartPolicy", pod["containers"])
        place = reader.make_word(value if "restartPolicy" in pod else key)
        seen = _("a Job needs restartPolicy Never or OnFailure: Kubernetes rejects it")
        yield fail(place, seen, _("Write restartPolicy: Never in the pod's spec."))


def _has_all_volumes(reader: YamlReader, fields: Fields, pod: Fields) -> bool:
    """Whether nothing else adds volumes: some operators add them to pods without any, and a patch has no selector."""
    kind, group = _read_text(fields, "kind"), _read_text(fields, "apiVersion").partition("/")[0]
    if group == "apps" and not ("spec" in fields and "selector" in reader.read_fields(fields["spec"][1])):
        return False
    if "volumes" in pod:
        return bool(pod["volumes"][1].id == "sequence")
    return group == "batch" or group in load_manifest_tables().groups.get(kind, ())


def _list_claims(reader: YamlReader, fields: Fields) -> frozenset[str]:
    """The volumes that a StatefulSet claims for each of its pods."""
    spec = reader.read_fields(fields["spec"][1]) if "spec" in fields else {}
    claims = [reader.read_fields(each) for each in read_items(spec, "volumeClaimTemplates")]
    metadata = [reader.read_fields(each["metadata"][1]) for each in claims if "metadata" in each]
    return frozenset(_read_text(each, "name") for each in metadata)


def _list_volumes(reader: YamlReader, pod: Fields) -> frozenset[str]:
    return frozenset(_read_text(reader.read_fields(each), "name") for each in read_items(pod, "volumes"))


def _judge_volumes(reader: YamlReader, containers: list[Any], names: frozenset[str]) -> Iterator[Remark]:
    for container in containers:
        for mount in read_items(reader.read_fields(container), "volumeMounts"):
            name = reader.read_fields(mount).get("name")
            if name and name[1].id == "scalar" and str(name[1].value) not in names and "$" not in name[1].value:
                seen = _("the pod has no volume {name}: Kubernetes rejects it", name=str(name[1].value)[:60])
                yield fail(reader.make_word(name[1]), seen, _("Add it to volumes, or correct the name."))


def _judge_container(reader: YamlReader, container: Fields) -> Iterator[Remark]:
    resources = reader.read_fields(container["resources"][1]) if "resources" in container else {}
    requests, limits = (
        reader.read_fields(resources[name][1]) if name in resources else {} for name in ("requests", "limits")
    )
    for name, (key, value) in requests.items():
        if "/" not in name or name.partition("/")[0].endswith("kubernetes.io") or value.id != "scalar":
            continue
        limit = limits.get(name)
        if limit is None:
            seen = _("{resource} is requested without a limit: Kubernetes rejects it", resource=name)
            yield fail(reader.make_word(key), seen, _("Put it under limits: the request is then the same."))
        elif limit[1].id == "scalar" and str(limit[1].value) != str(value.value):
            seen = _("{resource} has the request {request} and the limit {limit}: Kubernetes rejects it", resource=name,
                     request=str(value.value)[:20], limit=str(limit[1].value)[:20])  # fmt: skip
            yield fail(reader.make_word(value), seen, _("Write the same number for both."))
    for memory in (each["memory"][1] for each in (requests, limits) if "memory" in each):
        found = re.fullmatch(r"(\d{1,9})(m?)", str(memory.value)) if memory.id == "scalar" else None
        size = int(found[1]) / (1000 if found[2] else 1) if found else LEAST_MEMORY
        if found and size < LEAST_MEMORY:
            seen = _("memory {value} is {size} B: the container cannot start", value=found[0], size=f"{size:g}")
            yield fail(reader.make_word(memory), seen, _("Add a unit: {value}Gi.", value=found[1]))
    for item in read_items(container, "env"):
        value = reader.read_fields(item).get("value")
        if value and value[1].id == "scalar" and value[1].tag.rpartition(":")[2] in ("int", "float", "bool"):
            place = reader.make_word(value[1])
            text = str(value[1].value)[:40]
            seen = _("the value {value} of a variable is not text: Kubernetes rejects it", value=text)
            yield fail(place, seen, _("Put it in quotes."), replace_span(place, f'"{value[1].value}"'))


def _judge_compose(context: LintContext, reader: YamlReader, root: Any) -> Iterator[Remark]:
    fields = reader.read_fields(root)
    services = reader.read_fields(fields["services"][1]) if "services" in fields else {}
    volumes = set(reader.read_fields(fields["volumes"][1])) if "volumes" in fields else set()
    owns = [reader.read_fields(service) for _key, service in services.values()]
    is_whole = "include" not in fields and not _is_part(context, owns)
    for own in owns:
        yield from _judge_reservations(reader, own)
        if not is_whole:
            continue
        for item in read_items(own, "volumes"):
            found = _NAMED_VOLUME.match(str(item.value)) if item.id == "scalar" else None
            if found and found[1] not in volumes and "extends" not in own:
                seen = _("the file has no volume {name}: compose rejects it", name=found[1])
                yield fail(reader.make_word(item), seen, _("Add it to volumes at the top level, or write a path."))
        for item in read_items(own, "depends_on"):
            if item.id == "scalar" and item.value not in services and "$" not in item.value:
                seen = _("the file has no service {name}: compose rejects it", name=str(item.value)[:60])
                yield fail(reader.make_word(item), seen, _("Correct the name of the service."))


def _is_part(context: LintContext, services: Sequence[Fields]) -> bool:
    """Whether compose may read other files with this one: an override, a service without image, or files in the folder
    that are named for compose, too.
    """
    name = context.source.name.rpartition("/")[2]
    if "override" in name or not all(own.keys() & {"image", "build", "extends"} for own in services):
        return True
    others = context.machine.list_sibling_names(MOST_FILES)
    return any(_COMPOSE_FILE.fullmatch(other) for other in others if other != name)


def _judge_reservations(reader: YamlReader, service: Fields) -> Iterator[Remark]:
    """The devices in deploy.resources.reservations."""
    inner = service
    for name in ("deploy", "resources", "reservations"):
        inner = reader.read_fields(inner[name][1]) if name in inner else {}
    for device in read_items(inner, "devices"):
        own = reader.read_fields(device)
        if own and "capabilities" not in own:
            key, _value = next(iter(own.values()))
            seen = _("a reserved device needs capabilities: compose rejects the file")
            yield fail(reader.make_word(key), seen, _("Add capabilities: [gpu]."))
        elif "count" in own and "device_ids" in own:
            seen = _("count and device_ids exclude each other: compose rejects the file")
            yield fail(reader.make_word(own["count"][0]), seen, _("Keep only one of them."))


def _read_text(fields: Fields, name: str) -> str:
    node = fields[name][1] if name in fields else None
    return str(node.value) if node is not None and node.id == "scalar" else ""


_JUDGES = {"kubernetes": _judge_kubernetes, "compose": _judge_compose}

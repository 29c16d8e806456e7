"""Convert a container specification and a `docker inspect` document to the same flat table of texts.  Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from installers.images.engine_kinds import detect_kind
from installers.recipes.container_spec import RECIPE_LABEL, ContainerSpec, normalize_capability
from installers.recipes.docker_cli import mount_word, port_word, size_word
from installers.recipes.recipe import Mount

# Docker adds the proxies of its client configuration to every container: they depend on the host, not on the recipe.
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}


@dataclass(frozen=True)
class EngineDefaults:
    """Values that the engine and the image set; without them, fields that the specification leaves open are ignored.

    `image_id` is the id of the image that the specification names; `own_variables` are set by the engine itself.
    """

    image_id: str = ""
    runtime: str = ""
    workdir: str = ""
    environment: Mapping[str, str] | None = None
    own_variables: frozenset[str] = frozenset()


def parse_defaults(image: Mapping[str, Any], info: Mapping[str, Any]) -> EngineDefaults:
    """Return the defaults from `docker image inspect` and `docker info`."""
    config, kind = image.get("Config") or {}, detect_kind(info)
    return EngineDefaults(
        str(image.get("Id") or ""),
        str(info.get("DefaultRuntime") or "") if kind.reports_runtime else "",
        str(config.get("WorkingDir") or ""),
        _split_variables(config.get("Env")),
        kind.own_variables,
    )


def flatten_spec(spec: ContainerSpec, known: EngineDefaults) -> dict[str, str]:
    """Return the fields of a specification as texts, lists sorted and one item a line."""
    return {
        "name": spec.name,
        "image": known.image_id or spec.image,
        "recipe": spec.recipe,
        "command": " ".join(spec.command),
        "workdir": _normalize_path(spec.workdir or known.workdir),
        "mounts": _join_sorted(map(_format_mount, spec.mounts)),
        "devices": _join_sorted((*spec.devices, *spec.cdi)),
        "runtime": spec.runtime or known.runtime,
        "capabilities": _join_sorted(spec.capabilities),
        "privileged": _truth(spec.privileged),
        "shm_size": "" if spec.shm_bytes is None else size_word(spec.shm_bytes),
        "network": _normalize_network(spec.network),
        "ipc": _normalize_namespace(spec.ipc),
        "pid": spec.pid,
        "ports": _join_sorted(map(port_word, spec.ports)),
        "ulimits": _join_sorted(f"{limit.name}={limit.soft}:{limit.hard}" for limit in spec.ulimits),
        "environment": _join_variables({**(known.environment or {}), **spec.environment}, spec),
        "tty": _truth(spec.tty),
        "stdin": _truth(spec.stdin),
    }


def flatten_inspect(inspected: Mapping[str, Any], spec: ContainerSpec, known: EngineDefaults) -> dict[str, str]:
    """Return the same fields of a `docker inspect` document, without what the specification leaves open."""
    config, host = inspected.get("Config") or {}, inspected.get("HostConfig") or {}
    limits = [limit for limit in host.get("Ulimits") or () if limit["Name"] in {wanted.name for wanted in spec.ulimits}]
    variables = _split_variables(config.get("Env"))
    if known.environment is None:
        variables = {name: text for name, text in variables.items() if name in spec.environment}
    expected = {*spec.environment, *(known.environment or {})}
    variables = {n: text for n, text in variables.items() if n in expected or n not in known.own_variables}
    return {
        "name": str(inspected.get("Name") or "").removeprefix("/"),
        "image": str(inspected.get("Image") if known.image_id else config.get("Image")),
        "recipe": str((config.get("Labels") or {}).get(RECIPE_LABEL) or ""),
        "command": " ".join(config.get("Cmd") or ()),
        "workdir": _normalize_path(config.get("WorkingDir")) if spec.workdir or known.workdir else "",
        "mounts": _join_sorted(_format_bind(m) for m in inspected.get("Mounts") or () if m.get("Type") == "bind"),
        "devices": _join_sorted((*map(_format_device, host.get("Devices") or ()), *_list_requests(host))),
        "runtime": str(host.get("Runtime") or "") if spec.runtime or known.runtime else "",
        "capabilities": _join_sorted(map(normalize_capability, host.get("CapAdd") or ())),
        "privileged": _truth(bool(host.get("Privileged"))),
        "shm_size": "" if spec.shm_bytes is None else size_word(int(host.get("ShmSize") or 0)),
        "network": _normalize_network(host.get("NetworkMode")),
        "ipc": _normalize_namespace(host.get("IpcMode")),
        "pid": _normalize_namespace(host.get("PidMode")),
        "ports": _join_sorted(_list_ports(host)),
        "ulimits": _join_sorted(f"{limit['Name']}={limit['Soft']}:{limit['Hard']}" for limit in limits),
        "environment": _join_variables(variables, spec),
        "tty": _truth(bool(config.get("Tty"))),
        "stdin": _truth(bool(config.get("OpenStdin"))),
    }


def _format_mount(mount: Mount) -> str:
    return mount_word(
        Mount(_normalize_path(mount.source), _normalize_path(mount.target), mount.read_only)
    ).removeprefix("type=bind,")


def _format_bind(found: Mapping[str, Any]) -> str:
    return _format_mount(Mount(str(found["Source"]), str(found["Destination"]), not found.get("RW", True)))


def _normalize_path(text: Any) -> str:
    """Return the path without trailing or double slashes."""
    return posixpath.normpath(text) if text else ""


def _format_device(found: Mapping[str, Any]) -> str:
    return f"{found['PathOnHost']}:{found['PathInContainer']}:{found.get('CgroupPermissions') or 'rwm'}"


def _list_requests(host: Mapping[str, Any]) -> list[str]:
    """Return the CDI names, and gpus=COUNT or gpus=IDS for --gpus."""
    found: list[str] = []
    for request in host.get("DeviceRequests") or ():
        ids = list(request.get("DeviceIDs") or ())
        found += ids if request.get("Driver") == "cdi" else [f"gpus={','.join(ids) or request.get('Count')}"]
    return found


def _list_ports(host: Mapping[str, Any]) -> list[str]:
    """Return the published ports; "every address" is "", 0.0.0.0 or ::, depending on the engine's version."""
    bindings = host.get("PortBindings") or {}
    pairs = [(inside, outside) for inside, all_of in bindings.items() for outside in all_of or ()]
    return [_format_port(inside, str(out.get("HostIp") or ""), str(out.get("HostPort") or "")) for inside, out in pairs]


def _format_port(inside: str, address: str, number: str) -> str:
    container, _unused, protocol = inside.partition("/")
    shown = "" if address in ("0.0.0.0", "::") else f"[{address}]:" if ":" in address else f"{address}:"
    return f"{shown.removeprefix(':')}{number}:{container}" + ("" if protocol in ("", "tcp") else f"/{protocol}")


def _normalize_network(name: Any) -> str:
    """Return the network mode; depending on the engine, its default network is "default" or "bridge"."""
    return "bridge" if name in (None, "", "default") else str(name)


def _normalize_namespace(name: Any) -> str:
    """Return "" for a separate namespace: private or shareable depends on the engine and its configuration."""
    return "" if name in (None, "", "private", "shareable") else str(name)


def _split_variables(lines: Iterable[str] | None) -> dict[str, str]:
    return {name: text for name, _unused, text in (line.partition("=") for line in lines or ())}


def _join_variables(pairs: Mapping[str, str], spec: ContainerSpec) -> str:
    """Return NAME=VALUE lines without the proxy variables that the specification does not set."""
    named = {name: text for name, text in pairs.items() if name in spec.environment or name.upper() not in PROXIES}
    return _join_sorted(f"{name}={text}" for name, text in named.items())


def _join_sorted(items: Iterable[str]) -> str:
    """Return the items sorted, one a line: the order of these lists has no meaning."""
    return "\n".join(sorted(items))


_truth: Callable[[bool], str] = {True: "yes", False: "no"}.__getitem__

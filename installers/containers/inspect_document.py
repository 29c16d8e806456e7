"""A Spec and the engine's document about a container, both as the same flat table of texts.  Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from installers.recipes.container_spec import RECIPE_LABEL, Spec, capability
from installers.recipes.docker_cli import mount_word, port_word, size_word
from installers.recipes.recipe import Mount

# Docker puts the proxies of its settings into every container, as docker run and as SDK: they are this host's.
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}


@dataclass(frozen=True)
class Defaults:
    """What engine and image put in by themselves; without it what only they can have said is not compared.

    `image_id` is the id of the image that the Spec names.
    """

    image_id: str = ""
    runtime: str = ""
    workdir: str = ""
    environment: Mapping[str, str] | None = None


def defaults(image: Mapping[str, Any], info: Mapping[str, Any]) -> Defaults:
    """From what the engine says of the image (inspect) and of itself (info)."""
    config = image.get("Config") or {}
    return Defaults(
        str(image.get("Id") or ""),
        str(info.get("DefaultRuntime") or ""),
        str(config.get("WorkingDir") or ""),
        _pairs(config.get("Env")),
    )


def of_spec(spec: Spec, known: Defaults) -> dict[str, str]:
    return {
        "name": spec.name,
        "image": known.image_id or spec.image,
        "recipe": spec.recipe,
        "command": " ".join(spec.command),
        "workdir": _path(spec.workdir or known.workdir),
        "mounts": _lines(map(_mount, spec.mounts)),
        "devices": _lines((*spec.devices, *spec.cdi)),
        "runtime": spec.runtime or known.runtime,
        "capabilities": _lines(spec.capabilities),
        "privileged": _truth(spec.privileged),
        "shm_size": "" if spec.shm_bytes is None else size_word(spec.shm_bytes),
        "network": _network(spec.network),
        "ipc": _ipc(spec.ipc),
        "pid": spec.pid,
        "ports": _lines(map(port_word, spec.ports)),
        "ulimits": _lines(f"{limit.name}={limit.soft}:{limit.hard}" for limit in spec.ulimits),
        "environment": _variables({**(known.environment or {}), **spec.environment}, spec),
        "tty": _truth(spec.tty),
        "stdin": _truth(spec.stdin),
    }


def of_inspect(inspected: Mapping[str, Any], spec: Spec, known: Defaults) -> dict[str, str]:
    """The same fields out of the engine's document; what the Spec leaves to engine and image is left out."""
    config, host = inspected.get("Config") or {}, inspected.get("HostConfig") or {}
    limits = [limit for limit in host.get("Ulimits") or () if limit["Name"] in {wanted.name for wanted in spec.ulimits}]
    variables = _pairs(config.get("Env"))
    if known.environment is None:
        variables = {name: text for name, text in variables.items() if name in spec.environment}
    return {
        "name": str(inspected.get("Name") or "").removeprefix("/"),
        "image": str(inspected.get("Image") if known.image_id else config.get("Image")),
        "recipe": str((config.get("Labels") or {}).get(RECIPE_LABEL) or ""),
        "command": " ".join(config.get("Cmd") or ()),
        "workdir": _path(config.get("WorkingDir")) if spec.workdir or known.workdir else "",
        "mounts": _lines(_bind(m) for m in inspected.get("Mounts") or () if m.get("Type") == "bind"),
        "devices": _lines((*map(_device, host.get("Devices") or ()), *_requested(host))),
        "runtime": str(host.get("Runtime") or "") if spec.runtime or known.runtime else "",
        "capabilities": _lines(map(capability, host.get("CapAdd") or ())),
        "privileged": _truth(bool(host.get("Privileged"))),
        "shm_size": "" if spec.shm_bytes is None else size_word(int(host.get("ShmSize") or 0)),
        "network": _network(host.get("NetworkMode")),
        "ipc": _ipc(host.get("IpcMode")),
        "pid": str(host.get("PidMode") or ""),
        "ports": _lines(_published(host)),
        "ulimits": _lines(f"{limit['Name']}={limit['Soft']}:{limit['Hard']}" for limit in limits),
        "environment": _variables(variables, spec),
        "tty": _truth(bool(config.get("Tty"))),
        "stdin": _truth(bool(config.get("OpenStdin"))),
    }


def _mount(mount: Mount) -> str:
    return mount_word(Mount(_path(mount.source), _path(mount.target), mount.read_only)).removeprefix("type=bind,")


def _bind(found: Mapping[str, Any]) -> str:
    return _mount(Mount(str(found["Source"]), str(found["Destination"]), not found.get("RW", True)))


def _path(text: Any) -> str:
    """Without a slash at the end and without doubled ones."""
    return posixpath.normpath(text) if text else ""


def _device(found: Mapping[str, Any]) -> str:
    return f"{found['PathOnHost']}:{found['PathInContainer']}:{found.get('CgroupPermissions') or 'rwm'}"


def _requested(host: Mapping[str, Any]) -> list[str]:
    """CDI names, and --gpus, which is no name but a wish."""
    found: list[str] = []
    for request in host.get("DeviceRequests") or ():
        ids = list(request.get("DeviceIDs") or ())
        found += ids if request.get("Driver") == "cdi" else [f"gpus={','.join(ids) or request.get('Count')}"]
    return found


def _published(host: Mapping[str, Any]) -> list[str]:
    """Every address is "", 0.0.0.0 or ::, as the engine's version has it."""
    bindings = host.get("PortBindings") or {}
    pairs = [(inside, outside) for inside, all_of in bindings.items() for outside in all_of or ()]
    return [_port(inside, str(out.get("HostIp") or ""), str(out.get("HostPort") or "")) for inside, out in pairs]


def _port(inside: str, address: str, number: str) -> str:
    container, _, protocol = inside.partition("/")
    shown = "" if address in ("0.0.0.0", "::") else f"[{address}]:" if ":" in address else f"{address}:"
    return f"{shown.removeprefix(':')}{number}:{container}" + ("" if protocol in ("", "tcp") else f"/{protocol}")


def _network(name: Any) -> str:
    """Engines name their default network default or bridge."""
    return "bridge" if name in (None, "", "default") else str(name)


def _ipc(name: Any) -> str:
    """Of its own, whether others may join it or not: the engine's configuration says which."""
    return "" if name in (None, "", "private", "shareable") else str(name)


def _pairs(lines: Iterable[str] | None) -> dict[str, str]:
    return {name: text for name, _, text in (line.partition("=") for line in lines or ())}


def _variables(pairs: Mapping[str, str], spec: Spec) -> str:
    """Without proxies that the Spec does not name."""
    named = {name: text for name, text in pairs.items() if name in spec.environment or name.upper() not in PROXIES}
    return _lines(f"{name}={text}" for name, text in named.items())


def _lines(items: Iterable[str]) -> str:
    """In one order, since none of these lists has a meaning in its order."""
    return "\n".join(sorted(items))


_truth: Callable[[bool], str] = {True: "yes", False: "no"}.__getitem__

"""The devices, shared memory and driver mounts of the running containers, from `docker ps` and `docker inspect`.

containers  {error: message | null, containers: [{name, image, pid, privileged, nodes: [..], visible: {NAME: value},
             requests: [..], shm_bytes, ipc, runtime, mounts: {target: source}}]}
            requests are CDI names, nvidia.com/gpu=0; of the environment, only the variables that select devices
            are collected
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

CONTAINERS_LIMIT, LIST_LIMIT = 64, 64


def collect_containers(vendors: "Sequence[Any]", run: "Callable[..., Any]") -> "dict[str, Any]":
    """Return the containers, or the engine's error message."""
    listed = run(("docker", "ps", "--quiet", "--no-trunc"), 4.0)
    if listed.status != 0:
        return {"error": _first_line(listed.err) or f"docker ps exited with code {listed.status}", "containers": []}
    ids = [word for word in listed.out.split() if word.isalnum()][:CONTAINERS_LIMIT]
    if not ids:
        return {"error": None, "containers": []}
    inspected = run(("docker", "inspect", "--format", "{{json .}}", *ids), 5.0)
    found = [one for one in (_parse_container(line, vendors) for line in inspected.out.splitlines()) if one]
    error = _first_line(inspected.err) or "docker inspect returned nothing"
    return {"error": None if found else error, "containers": found}  # a container that has just ended is left out


def _parse_container(line: str, vendors: "Sequence[Any]") -> "dict[str, Any] | None":
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    host, config, state = (_as_object(value.get(key)) for key in ("HostConfig", "Config", "State"))
    choosing = sorted({name for v in vendors for name in (v.visible_env, v.runtime_env) if name})
    kind = next((v.cdi_kind for v in vendors if v.owns_gpus_option), "")
    given = [_as_object(device) for device in _as_list(host.get("Devices"))]
    variables = dict(text.partition("=")[::2] for text in _as_list(config.get("Env")) if isinstance(text, str))
    mounts = [_as_object(mount) for mount in _as_list(value.get("Mounts"))]
    return {
        "name": str(value.get("Name") or "").lstrip("/")[:128],
        "image": str(config.get("Image") or "")[:256],
        "pid": state.get("Pid") if isinstance(state.get("Pid"), int) else None,
        "privileged": host.get("Privileged") is True,
        "nodes": [str(device.get("PathOnHost"))[:128] for device in given if device.get("PathOnHost")],
        "visible": {name: variables[name][:256] for name in choosing if name in variables},
        "requests": [
            text
            for one in _as_list(host.get("DeviceRequests"))
            for text in _list_device_requests(_as_object(one), kind)
        ],
        "shm_bytes": host.get("ShmSize") if isinstance(host.get("ShmSize"), int) else None,
        "ipc": str(host.get("IpcMode") or "")[:64],
        "runtime": str(host.get("Runtime") or "")[:64],
        "mounts": {str(m.get("Destination"))[:256]: str(m.get("Source"))[:256] for m in mounts if m.get("Destination")},
    }


def _list_device_requests(value: "dict[str, Any]", kind: str) -> "list[str]":
    """Return device requests by CDI name: --gpus is a request of the capability gpu for devices of `kind`, by number or
    all."""
    ids = [str(one)[:128] for one in _as_list(value.get("DeviceIDs"))]
    if value.get("Driver") == "cdi":
        return ids
    gpu = any("gpu" in _as_list(one) for one in _as_list(value.get("Capabilities")))
    return [f"{kind}={one}" for one in ids or ["all"]] if gpu and kind else []


def _as_object(value: object) -> "dict[str, Any]":
    return value if isinstance(value, dict) else {}


def _as_list(value: object) -> "list[Any]":
    return value[:LIST_LIMIT] if isinstance(value, list) else []


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")

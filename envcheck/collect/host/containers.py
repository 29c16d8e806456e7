"""What the running containers were given: cards, memory to share, the driver.  By `docker ps` and `docker inspect`.

containers  {error: sentence | null, containers: [{name, image, pid, privileged, nodes: [..], visible: {NAME: value},
             requests: [..], shm_bytes, ipc, runtime, mounts: {target: source}}]}
            requests are names of CDI, nvidia.com/gpu=0; of the environment only the variables that choose cards leave
            the engine, and nothing else of it
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

CONTAINERS_LIMIT, LIST_LIMIT = 64, 64


def containers(vendors: "Sequence[Any]", run: "Callable[..., Any]") -> "dict[str, Any]":
    listed = run(("docker", "ps", "--quiet", "--no-trunc"), 4.0)
    if listed.status != 0:
        return {"error": _first(listed.err) or f"docker ps ended with status {listed.status}", "containers": []}
    ids = [word for word in listed.out.split() if word.isalnum()][:CONTAINERS_LIMIT]
    if not ids:
        return {"error": None, "containers": []}
    told = run(("docker", "inspect", "--format", "{{json .}}", *ids), 5.0)
    found = [one for one in (_container(line, vendors) for line in told.out.splitlines()) if one]
    error = _first(told.err) or "docker inspect said nothing"
    return {"error": None if found else error, "containers": found}  # one that ended meanwhile is only missing


def _container(line: str, vendors: "Sequence[Any]") -> "dict[str, Any] | None":
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    host, config, state = (_object(said.get(key)) for key in ("HostConfig", "Config", "State"))
    choosing = sorted({name for v in vendors for name in (v.visible_env, v.runtime_env) if name})
    kind = next((v.cdi_kind for v in vendors if v.owns_gpus_option), "")
    given = [_object(device) for device in _list(host.get("Devices"))]
    variables = dict(text.partition("=")[::2] for text in _list(config.get("Env")) if isinstance(text, str))
    mounts = [_object(mount) for mount in _list(said.get("Mounts"))]
    return {
        "name": str(said.get("Name") or "").lstrip("/")[:128],
        "image": str(config.get("Image") or "")[:256],
        "pid": state.get("Pid") if isinstance(state.get("Pid"), int) else None,
        "privileged": host.get("Privileged") is True,
        "nodes": [str(device.get("PathOnHost"))[:128] for device in given if device.get("PathOnHost")],
        "visible": {name: variables[name][:256] for name in choosing if name in variables},
        "requests": [text for one in _list(host.get("DeviceRequests")) for text in _requested(_object(one), kind)],
        "shm_bytes": host.get("ShmSize") if isinstance(host.get("ShmSize"), int) else None,
        "ipc": str(host.get("IpcMode") or "")[:64],
        "runtime": str(host.get("Runtime") or "")[:64],
        "mounts": {str(m.get("Destination"))[:256]: str(m.get("Source"))[:256] for m in mounts if m.get("Destination")},
    }


def _requested(said: "dict[str, Any]", kind: str) -> "list[str]":
    """--gpus is a request of the capability gpu, by number, or all, for cards of `kind`; CDI's have full names."""
    ids = [str(one)[:128] for one in _list(said.get("DeviceIDs"))]
    if said.get("Driver") == "cdi":
        return ids
    gpu = any("gpu" in _list(one) for one in _list(said.get("Capabilities")))
    return [f"{kind}={one}" for one in ids or ["all"]] if gpu and kind else []


def _object(value: object) -> "dict[str, Any]":
    return value if isinstance(value, dict) else {}


def _list(value: object) -> "list[Any]":
    return value[:LIST_LIMIT] if isinstance(value, list) else []


def _first(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")

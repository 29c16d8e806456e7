"""The answers of the collectors permissions, processes, kernel, containers, libraries and loader as frozen data.

Each function reads one collector's answer from the facts; None if it was not collected.  Values of a wrong type are
left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, TypeVar

from envcheck.core.facts import Facts

T = TypeVar("T")
LIST_LIMIT = 65536


@dataclass(frozen=True)
class Caller:
    """The user who runs envcheck: `user` is None for a uid without an account; `capabilities` are the effective ones,
    as bits."""

    uid: int
    groups: tuple[int, ...] = ()
    user: str | None = None
    capabilities: int | None = None
    host_pids: bool | None = None


@dataclass(frozen=True)
class PathState:
    """`kind` is char, file, folder, link or other; `usable`: this process can read and write it."""

    kind: str
    mode: int
    uid: int
    gid: int
    usable: bool
    target: str | None = None


@dataclass(frozen=True)
class PathStates:
    """`paths` are those that exist; `named` are the paths in variables, and whether each exists."""

    paths: Mapping[str, PathState] = field(default_factory=dict)
    named: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeHolder:
    """A process with open device nodes; `run` is the id of its envcheck run if the run's supervisor has ended."""

    pid: int
    nodes: tuple[str, ...] = ()
    name: str | None = None
    uid: int | None = None
    parent: int | None = None
    state: str | None = None
    age_s: int | None = None
    container: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class HostProcesses:
    """All process ids; `blind` is how many processes could not be inspected, `holding` those with open device nodes."""

    pids: frozenset[int] = frozenset()
    blind: int = 0
    holding: tuple[NodeHolder, ...] = ()


@dataclass(frozen=True)
class KernelState:
    """`kernels`: release → the device modules built for it; `bootable`: the releases with a boot image."""

    running: str = ""
    loaded: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bootable: tuple[str, ...] = ()
    headers: bool | None = None
    tools: Mapping[str, bool] = field(default_factory=dict)
    secure_boot: bool | None = None


@dataclass(frozen=True)
class RunningContainer:
    """A container with its devices: `nodes` from --device, `requests` CDI names, `visible` variables that select
    devices."""

    name: str
    image: str = ""
    privileged: bool = False
    nodes: tuple[str, ...] = ()
    visible: Mapping[str, str] = field(default_factory=dict)
    requests: tuple[str, ...] = ()
    shm_bytes: int | None = None
    ipc: str = ""
    runtime: str = ""
    mounts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LibraryState:
    """`loads` is None if the child process crashed; `path` is set if the library was only found by its documented
    path."""

    loads: bool | None
    error: str = ""
    path: str | None = None


@dataclass(frozen=True)
class LoaderState:
    """`preload`: path → (machine, soname), None if the file does not exist; GLIBCXX versions are dotted numbers."""

    preload: Mapping[str, tuple[str, str | None] | None] = field(default_factory=dict)
    standard: tuple[str, str] | None = None
    wants: Mapping[str, str] = field(default_factory=dict)
    openmp: tuple[str, ...] = ()
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


CollectorJson = Mapping[str, Any]


def _collector_reader(name: str) -> Callable[[Callable[[CollectorJson], T | None]], Callable[[Facts], T | None]]:
    """Return a decorator: the reader of a collector's JSON becomes a reader of facts, cached for all checks."""

    def wrapped(read: Callable[[CollectorJson], T | None]) -> Callable[[Facts], T | None]:
        @lru_cache(maxsize=4)
        def of_text(text: str) -> T | None:
            value = _parse_object(text)
            return None if value is None else read(value)

        @wraps(read)
        def of_facts(facts: Facts) -> T | None:
            answer = facts.answers.get(f"ask {name}")
            return of_text(answer.out) if answer is not None and answer.ok else None

        return of_facts

    return wrapped


@_collector_reader("caller")
def read_caller(value: CollectorJson) -> Caller | None:
    """Return who runs envcheck, None if it was not collected."""
    if _as_int(value.get("uid")) is None:
        return None
    return Caller(
        uid=value["uid"],
        groups=tuple(n for n in (value.get("gid"), *_as_list(value.get("groups"))) if type(n) is int),
        user=_as_text(value.get("user")),
        capabilities=_parse_hex(value.get("capabilities")),
        host_pids=_as_bool(value.get("host_pids")),
    )


@_collector_reader("paths")
def read_paths(value: CollectorJson) -> PathStates | None:
    """Return the watched paths, None if they were not collected."""
    named = _decode_items(
        value.get("named"), lambda there: {p: b for p, b in _as_dict(there).items() if type(b) is bool}
    )
    return PathStates(_decode_items(value.get("paths"), _decode_path), named)


@_collector_reader("processes")
def read_processes(value: CollectorJson) -> HostProcesses | None:
    """Return the processes with open device nodes, None if they were not collected."""
    holding = tuple(
        _decode_holder(one) for one in _as_list(value.get("holding")) if _as_int(_as_dict(one).get("pid")) is not None
    )
    return HostProcesses(frozenset(_as_ints(value.get("pids"))), _as_int(value.get("blind")) or 0, holding)


@_collector_reader("kernel")
def read_kernel(value: CollectorJson) -> KernelState | None:
    """Return the kernels and modules, None if they were not collected."""
    kernels = _decode_items(value.get("kernels"), _as_dict)
    return KernelState(
        running=_as_text(value.get("running")) or "",
        loaded=_as_texts(value.get("loaded")),
        versions=_decode_items(value.get("versions"), _as_text),
        kernels={release: _as_texts(one.get("modules")) for release, one in kernels.items()},
        bootable=tuple(release for release, one in kernels.items() if one.get("bootable") is True),
        headers=_as_bool(value.get("headers")),
        tools=_decode_items(value.get("tools"), _as_bool),
        secure_boot=_as_bool(value.get("secure_boot")),
    )


@_collector_reader("containers")
def read_containers(value: CollectorJson) -> tuple[RunningContainer, ...] | None:
    """Return the running containers; None if they were not collected or the engine did not answer."""
    if value.get("error"):
        return None
    return tuple(_decode_container(one) for one in map(_as_dict, _as_list(value.get("containers"))))


@_collector_reader("libraries")
def read_libraries(value: CollectorJson) -> Mapping[str, LibraryState] | None:
    """Return the load results by library, None if they were not collected."""
    return _decode_items(value, _decode_library)


@_collector_reader("loader")
def read_loader(value: CollectorJson) -> LoaderState | None:
    """Return what the dynamic loader will find, None if it was not collected."""
    preload = {str(path): _decode_preloaded(one) for path, one in _as_dict(value.get("preload")).items()}
    standard = _as_texts([_as_dict(value.get("standard")).get(key) for key in ("path", "gives")])
    pair = (standard[0], standard[1]) if len(standard) == 2 else None
    copies = {str(name): _as_texts(paths) for name, paths in _as_dict(value.get("copies")).items()}
    return LoaderState(
        preload, pair, _decode_items(value.get("wants"), _as_text), _as_texts(value.get("openmp")), copies
    )


def _decode_preloaded(value: Any) -> tuple[str, str | None] | None:
    machine = _as_text(_as_dict(value).get("machine"))
    return (machine, _as_text(value.get("soname"))) if machine else None


def _decode_path(value: Any) -> PathState | None:
    fields = _as_dict(value)
    mode, uid, gid = fields.get("mode"), fields.get("uid"), fields.get("gid")
    if not (type(mode) is type(uid) is type(gid) is int):
        return None
    return PathState(
        _as_text(fields.get("kind")) or "other",
        mode,
        uid,
        gid,
        fields.get("usable") is True,
        _as_text(fields.get("target")),
    )


def _decode_holder(value: Mapping[str, Any]) -> NodeHolder:
    uid, parent, age_s = (_as_int(value.get(key)) for key in ("uid", "parent", "age_s"))
    name, state, container, run = (_as_text(value.get(key)) for key in ("name", "state", "container", "run"))
    return NodeHolder(value["pid"], _as_texts(value.get("nodes")), name, uid, parent, state, age_s, container, run)


def _decode_container(value: Mapping[str, Any]) -> RunningContainer:
    return RunningContainer(
        name=_as_text(value.get("name")) or "?",
        image=_as_text(value.get("image")) or "",
        privileged=value.get("privileged") is True,
        nodes=_as_texts(value.get("nodes")),
        visible=_decode_items(value.get("visible"), _as_text),
        requests=_as_texts(value.get("requests")),
        shm_bytes=_as_int(value.get("shm_bytes")),
        ipc=_as_text(value.get("ipc")) or "",
        runtime=_as_text(value.get("runtime")) or "",
        mounts=_decode_items(value.get("mounts"), _as_text),
    )


def _decode_library(value: Any) -> LibraryState | None:
    value = _as_dict(value)
    loads = value.get("loads")
    known = loads is None or type(loads) is bool
    return (
        LibraryState(loads, _as_text(value.get("error")) or "", _as_text(value.get("path")))
        if value and known
        else None
    )


def _read_collector(facts: Facts, name: str) -> Mapping[str, Any] | None:
    answer = facts.answers.get(f"ask {name}")
    return _parse_object(answer.out) if answer is not None and answer.ok else None


@lru_cache(maxsize=64)
def _parse_object(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object, cached: several checks read one answer, and none changes it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decode_items(value: Any, read: Callable[[Any], T | None]) -> dict[str, T]:
    pairs = list(_as_dict(value).items())[:LIST_LIMIT]
    return {str(key): found for key, item in pairs if (found := read(item)) is not None}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value[:LIST_LIMIT] if isinstance(value, list) else []


def _as_ints(value: Any) -> tuple[int, ...]:
    return tuple(n for n in _as_list(value) if type(n) is int)


def _as_texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _as_list(value) if isinstance(one, str))


def _as_int(value: Any) -> int | None:
    return value if type(value) is int else None


def _as_bool(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_hex(value: Any) -> int | None:
    try:
        return int(value, 16) if isinstance(value, str) and len(value) <= 32 else None
    except ValueError:
        return None

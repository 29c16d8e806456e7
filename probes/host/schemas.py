"""What the collectors permissions, processes, kernel, containers, libraries and loader told, as frozen data.

Each function reads one collector's answer out of the facts; None: it was not told.  What has a wrong type is left out.
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
    """Who runs envcheck: `user` is None for an uid without an entry; `capabilities` are the effective ones' bits."""

    uid: int
    groups: tuple[int, ...] = ()
    user: str | None = None
    capabilities: int | None = None
    host_pids: bool | None = None


@dataclass(frozen=True)
class Path:
    """`kind` is char, file, folder, link or other; `usable`: the caller may read and write it."""

    kind: str
    mode: int
    uid: int
    gid: int
    usable: bool
    target: str | None = None


@dataclass(frozen=True)
class Paths:
    """`paths` holds those that are there; `named`: by variable, whether each path that it names is there."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    named: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Holding:
    """A process with device nodes open."""

    pid: int
    nodes: tuple[str, ...] = ()
    name: str | None = None
    uid: int | None = None
    parent: int | None = None
    state: str | None = None
    age_s: int | None = None
    container: str | None = None


@dataclass(frozen=True)
class Processes:
    pids: frozenset[int] = frozenset()
    blind: int = 0
    holding: tuple[Holding, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """`kernels`: release → the cards' modules built for it; `bootable`: those with an image to start."""

    running: str = ""
    loaded: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bootable: tuple[str, ...] = ()
    headers: bool | None = None
    tools: Mapping[str, bool] = field(default_factory=dict)
    secure_boot: bool | None = None


@dataclass(frozen=True)
class Container:
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
class Library:
    """`loads` is None where the child died of it; `path`: its documented place, when the name alone did not do."""

    loads: bool | None
    error: str = ""
    path: str | None = None


@dataclass(frozen=True)
class Loader:
    """`preload`: path → (machine, soname), None where nothing is; versions of GLIBCXX are dotted numbers."""

    preload: Mapping[str, tuple[str, str | None] | None] = field(default_factory=dict)
    standard: tuple[str, str] | None = None
    wants: Mapping[str, str] = field(default_factory=dict)
    openmp: tuple[str, ...] = ()
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Said = Mapping[str, Any]


def _of(name: str) -> Callable[[Callable[[Said], T | None]], Callable[[Facts], T | None]]:
    """A reader of facts out of one of the collector's answer.  Several checks read it: it is read once."""

    def wrapped(read: Callable[[Said], T | None]) -> Callable[[Facts], T | None]:
        @lru_cache(maxsize=4)
        def of_text(text: str) -> T | None:
            said = _object(text)
            return None if said is None else read(said)

        @wraps(read)
        def of_facts(facts: Facts) -> T | None:
            answer = facts.answers.get(f"ask {name}")
            return of_text(answer.out) if answer is not None and answer.ok else None

        return of_facts

    return wrapped


@_of("caller")
def caller(said: Said) -> Caller | None:
    if _int(said.get("uid")) is None:
        return None
    return Caller(
        uid=said["uid"],
        groups=tuple(n for n in (said.get("gid"), *_list(said.get("groups"))) if type(n) is int),
        user=_text(said.get("user")),
        capabilities=_hex(said.get("capabilities")),
        host_pids=_bool(said.get("host_pids")),
    )


@_of("paths")
def paths(said: Said) -> Paths | None:
    named = _items(said.get("named"), lambda there: {p: b for p, b in _dict(there).items() if type(b) is bool})
    return Paths(_items(said.get("paths"), _path), named)


@_of("processes")
def processes(said: Said) -> Processes | None:
    holding = tuple(_holding(one) for one in _list(said.get("holding")) if _int(_dict(one).get("pid")) is not None)
    return Processes(frozenset(_ints(said.get("pids"))), _int(said.get("blind")) or 0, holding)


@_of("kernel")
def kernel(said: Said) -> Kernel | None:
    kernels = _items(said.get("kernels"), _dict)
    return Kernel(
        running=_text(said.get("running")) or "",
        loaded=_texts(said.get("loaded")),
        versions=_items(said.get("versions"), _text),
        kernels={release: _texts(one.get("modules")) for release, one in kernels.items()},
        bootable=tuple(release for release, one in kernels.items() if one.get("bootable") is True),
        headers=_bool(said.get("headers")),
        tools=_items(said.get("tools"), _bool),
        secure_boot=_bool(said.get("secure_boot")),
    )


@_of("containers")
def containers(said: Said) -> tuple[Container, ...] | None:
    """None, too, where the engine did not answer."""
    if said.get("error"):
        return None
    return tuple(_container(one) for one in map(_dict, _list(said.get("containers"))))


@_of("libraries")
def libraries(said: Said) -> Mapping[str, Library] | None:
    return _items(said, _library)


@_of("loader")
def loader(said: Said) -> Loader | None:
    preload = {str(path): _named(one) for path, one in _dict(said.get("preload")).items()}
    standard = _texts([_dict(said.get("standard")).get(key) for key in ("path", "gives")])
    pair = (standard[0], standard[1]) if len(standard) == 2 else None
    copies = {str(name): _texts(paths) for name, paths in _dict(said.get("copies")).items()}
    return Loader(preload, pair, _items(said.get("wants"), _text), _texts(said.get("openmp")), copies)


def _named(said: Any) -> tuple[str, str | None] | None:
    machine = _text(_dict(said).get("machine"))
    return (machine, _text(said.get("soname"))) if machine else None


def _path(said: Any) -> Path | None:
    told = _dict(said)
    mode, uid, gid = told.get("mode"), told.get("uid"), told.get("gid")
    if not (type(mode) is type(uid) is type(gid) is int):
        return None
    return Path(
        _text(told.get("kind")) or "other", mode, uid, gid, told.get("usable") is True, _text(told.get("target"))
    )


def _holding(said: Mapping[str, Any]) -> Holding:
    uid, parent, age_s = (_int(said.get(key)) for key in ("uid", "parent", "age_s"))
    name, state, container = (_text(said.get(key)) for key in ("name", "state", "container"))
    return Holding(said["pid"], _texts(said.get("nodes")), name, uid, parent, state, age_s, container)


def _container(said: Mapping[str, Any]) -> Container:
    return Container(
        name=_text(said.get("name")) or "?",
        image=_text(said.get("image")) or "",
        privileged=said.get("privileged") is True,
        nodes=_texts(said.get("nodes")),
        visible=_items(said.get("visible"), _text),
        requests=_texts(said.get("requests")),
        shm_bytes=_int(said.get("shm_bytes")),
        ipc=_text(said.get("ipc")) or "",
        runtime=_text(said.get("runtime")) or "",
        mounts=_items(said.get("mounts"), _text),
    )


def _library(said: Any) -> Library | None:
    said = _dict(said)
    loads = said.get("loads")
    known = loads is None or type(loads) is bool
    return Library(loads, _text(said.get("error")) or "", _text(said.get("path"))) if said and known else None


def _said(facts: Facts, name: str) -> Mapping[str, Any] | None:
    answer = facts.answers.get(f"ask {name}")
    return _object(answer.out) if answer is not None and answer.ok else None


@lru_cache(maxsize=64)
def _object(text: str) -> Mapping[str, Any] | None:
    """Several checks read one answer; nobody changes it."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _items(said: Any, read: Callable[[Any], T | None]) -> dict[str, T]:
    pairs = list(_dict(said).items())[:LIST_LIMIT]
    return {str(key): found for key, value in pairs if (found := read(value)) is not None}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value[:LIST_LIMIT] if isinstance(value, list) else []


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(n for n in _list(value) if type(n) is int)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _list(value) if isinstance(one, str))


def _int(value: Any) -> int | None:
    return value if type(value) is int else None


def _bool(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _hex(value: Any) -> int | None:
    try:
        return int(value, 16) if isinstance(value, str) and len(value) <= 32 else None
    except ValueError:
        return None

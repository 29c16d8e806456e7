"""The one door to the container engine, through the docker SDK; DOCKER_HOST says where it is, as it does to docker.

Whatever keeps us out is a `Problem`, a sentence with its next step; nothing here waits longer than its time-outs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from installers.images.engine_problems import ANSWER_S, DEFAULT, Problem, knock, refused, settings, too_old

if TYPE_CHECKING:
    import docker

MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}  # Go's words and uname's
# With its newer image store (the default since 29) the engine keeps images in containerd's folder, not below its own.
CONTAINERD_ROOT = "/var/lib/containerd"


@dataclass(frozen=True)
class Engine:
    """What the engine says of itself.

    `architecture` is uname's word; `root` is where images come to lie, `free_bytes` there (None: cannot be seen from
    here, as with an engine on another machine); `cdi` are the device names that its CDI files offer, `insecure` and
    `mirrors` what it knows of registries.
    """

    url: str
    problem: Problem | None = None
    version: str = ""
    api: str = ""
    architecture: str = ""
    root: str = ""
    free_bytes: int | None = None
    runtimes: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    cdi_folders: tuple[str, ...] = ()
    insecure: tuple[str, ...] = ()
    mirrors: tuple[str, ...] = ()


def address(environment: Mapping[str, str] | None = None) -> str:
    """Where the engine listens."""
    return (os.environ if environment is None else environment).get("DOCKER_HOST") or DEFAULT


def look() -> Engine:
    """The engine's facts, or why there are none."""
    url = address()
    if problem := knock(url) or settings():
        return Engine(url, problem)
    import docker
    import requests
    from docker.constants import MINIMUM_DOCKER_API_VERSION

    try:
        with contextlib.closing(_client(MINIMUM_DOCKER_API_VERSION, ANSWER_S)) as client:
            said = client.api.get(f"{client.api.base_url}/_ping", timeout=ANSWER_S).headers
        with contextlib.closing(_client(said.get("Api-Version", ""), ANSWER_S)) as client:
            return described(url, said, _table(client.info()))
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as err:
        return Engine(url, refused(url, err))


def connect(engine: Engine, answer_s: float = ANSWER_S) -> docker.DockerClient:
    """A client of an engine that was looked at; to be closed.  StepError says what is in the way."""
    if engine.problem:
        raise StepError(engine.problem.message, engine.problem.next_step)
    import docker
    import requests

    try:
        return _client(engine.api, answer_s)
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as err:
        problem = refused(engine.url, err)
        raise StepError(problem.message, problem.next_step) from None


@contextlib.contextmanager
def connected(answer_s: float = ANSWER_S) -> Iterator[tuple[Engine, docker.DockerClient]]:
    """What this user's engine is like, and a client of it that is closed at the end; StepError as of `connect`."""
    host = look()
    client = connect(host, answer_s)
    try:
        yield host, client
    finally:
        client.close()


def _client(api: str, answer_s: float) -> docker.DockerClient:
    """One that speaks this version of the API; "": the SDK asks for it, and the engine starts programs to answer."""
    import docker

    return docker.from_env(version=api or "auto", timeout=answer_s)  # type: ignore[arg-type]


def described(url: str, said: Mapping[str, str], info: Mapping[str, Any]) -> Engine:
    """The facts in the headers of its answer to a ping and in what it says of itself; both may lack anything."""
    number = _text(info.get("ServerVersion"))
    registries = _table(info.get("RegistryConfig"))
    indexes = {name: _table(about) for name, about in _table(registries.get("IndexConfigs")).items()}
    machine = _text(info.get("Architecture"))
    root = _images_root(info)
    return Engine(
        url=url,
        problem=too_old(number, _is_podman(said)),
        version=number,
        api=said.get("Api-Version", ""),
        architecture=MACHINES.get(machine, machine),
        root=root,
        free_bytes=_free(root) if url.startswith("unix://") else None,
        runtimes=tuple(sorted(_table(info.get("Runtimes")))),
        cdi=tuple(_text(d.get("ID")) for d in _tables(info.get("DiscoveredDevices")) if d.get("Source") == "cdi"),
        cdi_folders=_texts(info.get("CDISpecDirs")),
        insecure=_texts(registries.get("InsecureRegistryCIDRs"))
        + tuple(name for name, about in indexes.items() if about.get("Secure") is False),
        mirrors=_texts(registries.get("Mirrors")),
    )


def _is_podman(said: Mapping[str, str]) -> bool:
    """It puts the versions of its own API and of Buildah into every answer: containers/podman, compat/ping.go."""
    return any(name.lower().startswith("libpod-") for name in said)


def _images_root(info: Mapping[str, Any]) -> str:
    status = info.get("DriverStatus")
    pairs = [pair for pair in status if isinstance(pair, list)] if isinstance(status, list) else []
    snapshotter = any(pair[:1] == ["driver-type"] and "containerd" in str(pair[1:]) for pair in pairs)
    return CONTAINERD_ROOT if snapshotter else _text(info.get("DockerRootDir"))


def _free(root: str) -> int | None:
    """Bytes free below the folder; None where it is not to be seen."""
    try:
        told = os.statvfs(root)
    except OSError:
        return None
    return told.f_bavail * told.f_frsize


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []

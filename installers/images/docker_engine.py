"""Access to the container engine through the docker SDK; DOCKER_HOST gives its address, as for docker itself.

Every failure is an `EngineProblem`: a message with a next step.  No call waits longer than its timeout.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from installers.images import engine_kinds
from installers.images.engine_kinds import EngineKind
from installers.images.engine_problems import (
    ANSWER_S,
    DEFAULT,
    EngineProblem,
    check_settings,
    check_version,
    explain_exception,
    probe_socket,
)

if TYPE_CHECKING:
    import docker

MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}  # GOARCH or uname to uname
# With the containerd image store (the default since Docker 29) images are in this folder, not below DockerRootDir.
CONTAINERD_ROOT = "/var/lib/containerd"


@dataclass(frozen=True)
class EngineProxies:
    """The proxies of the daemon as `docker info` shows them: logins are masked there."""

    http: str = ""
    https: str = ""
    excluded: str = ""

    @property
    def is_masked(self) -> bool:
        """Whether a proxy has a login, which only the engine knows."""
        return "@" in self.http + self.https


@dataclass(frozen=True)
class DockerEngine:
    """The facts of a container engine; with a `problem`, all others are empty.

    `architecture` is named as by uname; `root` is the folder that stores images, `free_bytes` the space there (None:
    unknown, for example on another machine); `cdi` are the device names of its CDI files; `insecure` and `mirrors` are
    its registry settings; `kind` has what it lacks; `proxies` are the daemon's own.
    """

    url: str
    problem: EngineProblem | None = None
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
    kind: EngineKind = engine_kinds.DOCKER
    proxies: EngineProxies = EngineProxies()


def read_address(environment: Mapping[str, str] | None = None) -> str:
    """Return the URL of the engine: $DOCKER_HOST or the default socket."""
    return (os.environ if environment is None else environment).get("DOCKER_HOST") or DEFAULT


def inspect_engine() -> DockerEngine:
    """Return the facts of the engine, or a DockerEngine with the problem that prevents access."""
    url = read_address()
    if problem := probe_socket(url) or check_settings():
        return DockerEngine(url, problem)
    import docker
    import requests
    from docker.constants import MINIMUM_DOCKER_API_VERSION

    try:
        with contextlib.closing(_make_client(MINIMUM_DOCKER_API_VERSION, ANSWER_S)) as client:
            headers = client.api.get(f"{client.api.base_url}/_ping", timeout=ANSWER_S).headers
        with contextlib.closing(_make_client(headers.get("Api-Version", ""), ANSWER_S)) as client:
            return parse_engine(url, headers, _as_table(client.info()))
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as err:
        return DockerEngine(url, explain_exception(url, err))


def open_client(engine: DockerEngine, answer_s: float = ANSWER_S) -> docker.DockerClient:
    """Return a client of an inspected engine; the caller closes it.  Raises StepError with the engine's problem."""
    if engine.problem:
        raise StepError(engine.problem.message, engine.problem.next_step)
    import docker
    import requests

    try:
        return _make_client(engine.api, answer_s)
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as err:
        problem = explain_exception(engine.url, err)
        raise StepError(problem.message, problem.next_step) from None


@contextlib.contextmanager
def engine_client(answer_s: float = ANSWER_S) -> Iterator[tuple[DockerEngine, docker.DockerClient]]:
    """Yield the facts of this user's engine and a client, closed at the end.  Raises StepError as `open_client`."""
    host = inspect_engine()
    client = open_client(host, answer_s)
    try:
        yield host, client
    finally:
        client.close()


def _make_client(api: str, answer_s: float) -> docker.DockerClient:
    """Return a client for this API version.  With "" the SDK queries it, for which the engine starts programs."""
    import docker

    return docker.from_env(version=api or "auto", timeout=answer_s)  # type: ignore[arg-type]


def parse_engine(url: str, headers: Mapping[str, str], info: Mapping[str, Any]) -> DockerEngine:
    """Return the facts in the headers of the `_ping` response and in `docker info`; any field may be missing."""
    number, kind = _as_text(info.get("ServerVersion")), engine_kinds.detect_kind(info, headers)
    registries = _as_table(info.get("RegistryConfig"))
    indexes = {name: _as_table(about) for name, about in _as_table(registries.get("IndexConfigs")).items()}
    machine = _as_text(info.get("Architecture"))
    root = _images_root(info)
    return DockerEngine(
        url=url,
        problem=check_version(number, kind),
        kind=kind,
        version=number,
        api=headers.get("Api-Version", ""),
        architecture=MACHINES.get(machine, machine),
        root=root,
        free_bytes=_free_bytes(root) if url.startswith("unix://") else None,
        runtimes=tuple(sorted(_as_table(info.get("Runtimes")))),
        cdi=tuple(_as_text(d.get("ID")) for d in _as_tables(info.get("DiscoveredDevices")) if d.get("Source") == "cdi"),
        cdi_folders=_as_texts(info.get("CDISpecDirs")),
        insecure=_as_texts(registries.get("InsecureRegistryCIDRs"))
        + tuple(name for name, about in indexes.items() if about.get("Secure") is False),
        mirrors=_as_texts(registries.get("Mirrors")),
        proxies=EngineProxies(*(_as_text(info.get(key)) for key in ("HttpProxy", "HttpsProxy", "NoProxy"))),
    )


def _images_root(info: Mapping[str, Any]) -> str:
    status = info.get("DriverStatus")
    pairs = [pair for pair in status if isinstance(pair, list)] if isinstance(status, list) else []
    snapshotter = any(pair[:1] == ["driver-type"] and "containerd" in str(pair[1:]) for pair in pairs)
    return CONTAINERD_ROOT if snapshotter else _as_text(info.get("DockerRootDir"))


def _free_bytes(root: str) -> int | None:
    """Return the free bytes of the file system; None if it is not accessible from here."""
    try:
        status = os.statvfs(root)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _as_texts(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _as_table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_tables(value: object) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []

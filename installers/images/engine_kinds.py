"""The kinds of container engines as a table: what each one lacks, reports otherwise, and what helps.  Pure.

Engines with Docker's API are used through it.  Others are recognised by their program, and refused by name: envcheck
creates no container with them, and the plan has what they cannot do and how to use the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.messages import NOTHING, Message, _, fill, mark
from installers.recipes.container_spec import ContainerSpec

LOW_PORT = 1024  # lower ones are root's
PRIVILEGED, HOST_NETWORK = mark("all privileges"), mark("the host's network")
HOST_PIDS, MEMLOCK = mark("the host's processes"), mark("unlimited locked memory")
CDI, RUNTIME, PORTS = mark("CDI devices"), mark("a vendor's runtime"), mark("ports below 1024")


@dataclass(frozen=True)
class EngineKind:
    """An engine; `lacks` are features of a container with the reason, `own_variables` those that it sets itself.

    `oldest` is the oldest usable version; `help` is what to do where a feature is missing.
    """

    title: str
    oldest: str
    lacks: Mapping[str, str] = field(default_factory=dict)
    own_variables: frozenset[str] = frozenset()
    reports_runtime: bool = True
    help: str = ""


_USERS_OWN = mark("the engine of a user has no more rights than the user")
_OWN_NETWORK = mark("the engine has a network of its own")
_ROOT = mark("use the engine of the system: unset DOCKER_HOST, or ask its administrator for access")
_PODMAN = frozenset(("container", "TERM", "HOSTNAME", "HOME"))
DOCKER = EngineKind("Docker", "20.10.10")
DOCKER_ROOTLESS = EngineKind(
    "rootless Docker",
    "20.10.10",
    {
        PRIVILEGED: _USERS_OWN,
        HOST_NETWORK: _OWN_NETWORK,
        HOST_PIDS: _USERS_OWN,
        MEMLOCK: _USERS_OWN,
        PORTS: _USERS_OWN,
    },
    help=_ROOT,
)
_NO_REQUESTS = mark("its Docker API does not pass them on")
PODMAN = EngineKind(
    "Podman",
    "4.0",
    {CDI: _NO_REQUESTS, RUNTIME: _NO_REQUESTS},
    _PODMAN,
    False,
    mark("use Docker, or the recipe's published options: --as-published"),
)
PODMAN_ROOTLESS = EngineKind(
    "rootless Podman",
    "4.0",
    {
        CDI: _NO_REQUESTS,
        RUNTIME: _NO_REQUESTS,
        PRIVILEGED: _USERS_OWN,
        HOST_PIDS: _USERS_OWN,
        MEMLOCK: _USERS_OWN,
        PORTS: _USERS_OWN,
    },
    _PODMAN,
    False,
    mark("use Podman as root: DOCKER_HOST=unix:///run/podman/podman.sock"),
)


@dataclass(frozen=True)
class ForeignEngine:
    """A program that runs containers, which is not used; `help` is what to do instead.

    With `runs_images` it runs commands in an image that is a file, where envcheck works as on a host.
    """

    program: str
    title: str
    why: str
    help: str
    lacks: Mapping[str, str] = field(default_factory=dict)
    runs_images: bool = False


_SESSION = mark("limits are those of the user's session")
_IMAGE_RUNNER = (
    mark("it runs commands in an image, not a lasting container"),
    mark("provision inside the image: the manual step has the commands"),
    {
        PRIVILEGED: mark("a command in an image has no more rights than the user"),
        MEMLOCK: _SESSION,
        CDI: mark("it shows the host's devices; bind the driver's libraries with --bind, or --nv where it applies"),
        RUNTIME: mark("it has no runtimes; bind the driver's libraries with --bind, or --nv where it applies"),
        PORTS: mark("a command in an image has no more rights than the user"),
    },
    True,
)
FOREIGN = (
    ForeignEngine(
        "podman",
        "Podman",
        mark("its Docker API is not running"),
        mark("run `systemctl enable --now podman.socket`, then set DOCKER_HOST=unix:///run/podman/podman.sock"),
    ),
    ForeignEngine(
        "nerdctl",
        "nerdctl",
        mark("containerd has no Docker API"),
        mark("install Docker, or create the container with nerdctl (--as-script shows how) and use envcheck inside it"),
    ),
    ForeignEngine("apptainer", "Apptainer", *_IMAGE_RUNNER),
    ForeignEngine("singularity", "Singularity", *_IMAGE_RUNNER),
)


def detect_kind(info: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> EngineKind:
    """Return the kind of the engine that gave this `docker info` and these headers of a `_ping` response.

    Podman adds Libpod-API-Version to the response (containers/podman, compat/ping.go), and BuildahVersion to the info.
    """
    is_podman = "BuildahVersion" in info or any(name.lower().startswith("libpod-") for name in headers or ())
    options = info.get("SecurityOptions")
    listed = options if isinstance(options, list) else []
    is_rootless = info.get("Rootless") is True or any("name=rootless" in str(option) for option in listed)
    if is_podman:
        return PODMAN_ROOTLESS if is_rootless else PODMAN
    return DOCKER_ROOTLESS if is_rootless else DOCKER


def list_features(spec: ContainerSpec) -> Iterator[str]:
    """Yield the features of a container that some engines lack."""
    limits = {limit.name: limit.hard for limit in spec.ulimits}
    for feature, is_wanted in (
        (PRIVILEGED, spec.privileged),
        (HOST_NETWORK, spec.network == "host"),
        (HOST_PIDS, spec.pid == "host"),
        (MEMLOCK, limits.get("memlock") == -1),
        (CDI, bool(spec.cdi)),
        (RUNTIME, bool(spec.runtime)),
        (PORTS, any(port.host < LOW_PORT for port in spec.ports)),
    ):
        if is_wanted:
            yield feature


def find_gaps(kind: EngineKind | ForeignEngine, spec: ContainerSpec) -> Iterator[tuple[Message, Message]]:
    """Yield (reason, next step) for each feature that the container needs and the engine lacks."""
    for feature in list_features(spec):
        if why := kind.lacks.get(feature):
            yield (
                _(
                    "{engine} cannot give a container {feature}: {why}",
                    engine=kind.title,
                    feature=fill(feature),
                    why=fill(why),
                ),
                fill(kind.help) if kind.help else NOTHING,
            )

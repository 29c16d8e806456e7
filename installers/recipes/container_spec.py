"""The specification of a container: every field that envcheck sets, and the parsers for the recipe's notations."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from envcheck.core.messages import _
from installers.recipes.recipe import Mount, RecipeContainer

RECIPE_LABEL, DIGEST_LABEL, SITE_LABEL = "envcheck.recipe", "envcheck.digest", "envcheck.site"
COMMAND = ("bash",)  # with a tty and open stdin the shell never exits, so the container stays up for `docker exec`

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}  # the engine's letters are binary
_PORT = re.compile(r"(?:(?:(\d[\d.]{6,14})|\[([0-9a-fA-F:]{2,45})\]):)?(\d{1,5}):(\d{1,5})(?:/(tcp|udp|sctp))?")
_ULIMIT = re.compile(r"(-1|\d{1,15})(?::(-1|\d{1,15}))?")


@dataclass(frozen=True)
class PublishedPort:
    """`address` and `host` (port) are on this machine, "" means every address; `container` is the port inside."""

    address: str
    host: int
    container: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class Ulimit:
    """-1 means unlimited; the unit depends on the limit (memlock: bytes, nofile: files)."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True)
class ContainerSpec:
    """`image` is a name with a digest, or an image id, so that exactly the pulled image is run.

    `devices` are host:container:permissions, `cdi` names like iluvatar.com/gpu=0.  An empty text or a size of None
    keeps the default of the engine or the image.  `site` are the targets of mounts and the names of variables that are
    the site's, not the recipe's.
    """

    name: str
    image: str
    recipe: str = ""
    command: tuple[str, ...] = COMMAND
    workdir: str = ""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    runtime: str = ""
    capabilities: tuple[str, ...] = ()
    privileged: bool = False
    shm_bytes: int | None = None
    network: str = ""
    ipc: str = ""
    pid: str = ""
    ports: tuple[PublishedPort, ...] = ()
    ulimits: tuple[Ulimit, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    tty: bool = True
    stdin: bool = True
    site: tuple[str, ...] = ()

    @property
    def site_sources(self) -> tuple[str, ...]:
        """Return the paths on the host that the site mounts into every container."""
        return tuple(mount.source for mount in self.mounts if mount.target in self.site)

    @property
    def digest(self) -> str:
        """Return a SHA-256 of all fields, independent of the order of the environment variables."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that mark envcheck's containers; {} for a specification without a recipe."""
        of_site = {SITE_LABEL: json.dumps(self.site)} if self.site else {}
        return {RECIPE_LABEL: self.recipe, DIGEST_LABEL: self.digest, **of_site} if self.recipe else {}


def read_site_label(labels: Mapping[str, str]) -> frozenset[str]:
    """Return the names that `ContainerSpec.site` put into the labels; empty if there are none, or not ours."""
    try:
        found = json.loads(labels.get(SITE_LABEL) or "[]")
    except ValueError:
        return frozenset()
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def build_spec(container: RecipeContainer, image: str, folder: str) -> ContainerSpec:
    """Return the container as the recipe describes it, without host facts; relative sources start at `folder`."""
    return ContainerSpec(
        name=container.name,
        image=image,
        workdir=container.workdir,
        mounts=tuple(Mount(resolve_source(m.source, folder), m.target, m.read_only) for m in container.mounts),
        devices=tuple(map(normalize_device, container.devices)),
        capabilities=tuple(normalize_capability(name) for name in container.capabilities),
        privileged=container.privileged,
        shm_bytes=parse_size(container.shm_size) if container.shm_size else None,
        network=container.network,
        ipc=container.ipc,
        pid=container.pid,
        ports=() if container.network == "host" else tuple(map(parse_port, container.ports)),
        ulimits=tuple(parse_ulimit(name, text) for name, text in container.ulimits.items()),
        environment=dict(container.environment),
    )


def resolve_source(source: str, folder: str) -> str:
    """Return the absolute, normalized path of a mount source."""
    return posixpath.normpath(posixpath.join(folder, source))


def normalize_capability(name: str) -> str:
    """Return one spelling: the engine accepts SYS_PTRACE and CAP_SYS_PTRACE in upper and lower case."""
    return name.upper().removeprefix("CAP_")


def normalize_device(text: str) -> str:
    """Return the device as host:container:permissions, the form that the engine reports."""
    source, _unused, rest = text.partition(":")
    target, _unused, permissions = rest.partition(":")
    return f"{source}:{target or source}:{permissions or 'rwm'}"


def parse_size(text: str) -> int:
    """Return the bytes of a size like 128g, 64MiB, 1.5g or 1048576; raise ValueError with a message otherwise."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise ValueError(_("expected a size like 128g, found {found!r}", found=text[:40]))
    return int(float(found[1]) * _UNITS[found[2].lower()])


def parse_port(text: str) -> PublishedPort:
    """Parse 127.0.0.1:7860:7860, 7860:7860 or 53:53/udp; raise ValueError with a message otherwise."""
    found = _PORT.fullmatch(text)
    numbers = [int(n) for n in found.group(3, 4)] if found else []
    if not found or not all(0 < n < 1 << 16 for n in numbers):
        raise ValueError(_("expected ports like 127.0.0.1:7860:7860, found {found!r}", found=text[:40]))
    return PublishedPort(found[1] or found[2] or "", numbers[0], numbers[1], found[5] or "tcp")


def parse_ulimit(name: str, text: str) -> Ulimit:
    """Parse "-1" or "65536:1048576"; a single number sets both limits.  Raises ValueError with a message."""
    found = _ULIMIT.fullmatch(text)
    if not found or not re.fullmatch(r"[a-z]{2,16}", name):
        raise ValueError(
            _(
                "expected a limit like memlock = '-1' or nofile = '65536:1048576', found {name} = {found!r}",
                name=name[:20],
                found=text[:40],
            )
        )
    soft, hard = int(found[1]), int(found[2] or found[1])
    if hard != -1 and (soft == -1 or soft > hard):
        raise ValueError(_("the soft limit of {name} is above its hard limit: {found!r}", name=name, found=text[:40]))
    return Ulimit(name, soft, hard)

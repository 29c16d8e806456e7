"""A container as it is to be: every field that we set, as frozen data, and the recipe's own spellings read into it."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from installers.recipes.recipe import Container, Mount

RECIPE_LABEL, DIGEST_LABEL = "envcheck.recipe", "envcheck.digest"
COMMAND = ("bash",)  # with a terminal and an open input a shell waits for ever: the container stays for `docker exec`

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}  # the engine's letters are binary
_PORT = re.compile(r"(?:(?:(\d[\d.]{6,14})|\[([0-9a-fA-F:]{2,45})\]):)?(\d{1,5}):(\d{1,5})(?:/(tcp|udp|sctp))?")
_ULIMIT = re.compile(r"(-1|\d{1,15})(?::(-1|\d{1,15}))?")


@dataclass(frozen=True)
class Port:
    """`address` and `host` are this machine's, "" is every address; `container` is the port inside."""

    address: str
    host: int
    container: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class Ulimit:
    """-1 is unlimited; units are the limit's own (memlock bytes, nofile files)."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True)
class Spec:
    """`image` is a name with its digest, or an image's id: what was pulled is what is run.

    `devices` are host:container:permissions, `cdi` names like iluvatar.com/gpu=0.  An empty text and a size of None
    leave the engine's or the image's own.
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
    ports: tuple[Port, ...] = ()
    ulimits: tuple[Ulimit, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    tty: bool = True
    stdin: bool = True

    @property
    def digest(self) -> str:
        """The same for the same container, whatever the order of its environment."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def labels(self) -> dict[str, str]:
        """What tells our containers from a stranger's; one without a recipe bears none."""
        return {RECIPE_LABEL: self.recipe, DIGEST_LABEL: self.digest} if self.recipe else {}


def as_written(container: Container, image: str, folder: str) -> Spec:
    """The container as the recipe has it, no host asked; relative sources start at `folder`."""
    return Spec(
        name=container.name,
        image=image,
        workdir=container.workdir,
        mounts=tuple(Mount(placed(m.source, folder), m.target, m.read_only) for m in container.mounts),
        devices=tuple(map(node, container.devices)),
        capabilities=tuple(capability(name) for name in container.capabilities),
        privileged=container.privileged,
        shm_bytes=size_bytes(container.shm_size) if container.shm_size else None,
        network=container.network,
        ipc=container.ipc,
        pid=container.pid,
        ports=() if container.network == "host" else tuple(map(port, container.ports)),
        ulimits=tuple(ulimit(name, text) for name, text in container.ulimits.items()),
        environment=dict(container.environment),
    )


def placed(source: str, folder: str) -> str:
    """A mount's source from the root down."""
    return posixpath.normpath(posixpath.join(folder, source))


def capability(name: str) -> str:
    """The engine takes SYS_PTRACE and CAP_SYS_PTRACE, in either case; one spelling here."""
    return name.upper().removeprefix("CAP_")


def node(text: str) -> str:
    """A device as host:container:permissions, as the engine keeps it."""
    source, _, rest = text.partition(":")
    target, _, permissions = rest.partition(":")
    return f"{source}:{target or source}:{permissions or 'rwm'}"


def size_bytes(text: str) -> int:
    """128g, 64MiB, 1.5g, 1048576; ValueError says what was expected."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise ValueError(f"expected a size like 128g, found {text[:40]!r}")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def port(text: str) -> Port:
    """127.0.0.1:7860:7860, 7860:7860, 53:53/udp; ValueError says what was expected."""
    found = _PORT.fullmatch(text)
    numbers = [int(n) for n in found.group(3, 4)] if found else []
    if not found or not all(0 < n < 1 << 16 for n in numbers):
        raise ValueError(f"expected ports like 127.0.0.1:7860:7860, found {text[:40]!r}")
    return Port(found[1] or found[2] or "", numbers[0], numbers[1], found[5] or "tcp")


def ulimit(name: str, text: str) -> Ulimit:
    """ "-1" or "1048576:1048576"; one number is both; ValueError says what was expected."""
    found = _ULIMIT.fullmatch(text)
    if not found or not re.fullmatch(r"[a-z]{2,16}", name):
        raise ValueError(
            f"expected a limit like memlock = '-1' or nofile = '65536:1048576', found {name[:20]} = {text[:40]!r}"
        )
    soft, hard = int(found[1]), int(found[2] or found[1])
    if hard != -1 and (soft == -1 or soft > hard):
        raise ValueError(f"the soft limit of {name} is above the hard one: {text[:40]!r}")
    return Ulimit(name, soft, hard)

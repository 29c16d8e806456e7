"""The `docker run` command that creates a container from its specification, for scripts and for display."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from installers.recipes.container_spec import ContainerSpec, PublishedPort, Ulimit
from installers.recipes.recipe import Mount

HERE = "$PWD"
_ACTIVE, _ESCAPED = re.compile(r'(["\\$`])'), r"\\\1"  # characters that stay special inside double quotes
_UNITS = ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"))


def run_argv(spec: ContainerSpec) -> list[str]:
    """Return the arguments of `docker run`.  Uses --mount because -v creates a folder for a missing source."""
    argv = ["docker", "run", "--detach"]
    flags = (("--interactive", spec.stdin), ("--tty", spec.tty), ("--privileged", spec.privileged))
    argv += [option for option, given in flags if given]
    for option, value in _list_options(spec):
        argv += [option, value]
    return [*argv, spec.image, *spec.command]


def shell_words(spec: ContainerSpec) -> tuple[str, ...]:
    """Return `run_argv` quoted for a shell; $PWD in mount sources expands to the folder in which it is run."""
    return tuple(_quote_part(part) for part in run_argv(spec))


def mount_word(mount: Mount) -> str:
    """Return the value of --mount, one line of CSV: a path that contains a comma is quoted."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return ",".join(_quote_csv(text) for text in [*fields, *(["readonly"] if mount.read_only else [])])


def port_word(port: PublishedPort) -> str:
    """Return the value of --publish: [ADDRESS:]HOST:CONTAINER[/PROTOCOL], an IPv6 address in brackets."""
    address = f"[{port.address}]" if ":" in port.address else port.address
    suffix = "" if port.protocol == "tcp" else f"/{port.protocol}"
    return f"{address}{':' if address else ''}{port.host}:{port.container}{suffix}"


def size_word(size: int) -> str:
    """Return bytes in the largest unit that divides them without rest: 137438953472 is 128g."""
    return next((f"{size // unit}{letter}" for unit, letter in _UNITS if size and size % unit == 0), str(size))


def _list_options(spec: ContainerSpec) -> Iterator[tuple[str, str]]:
    single = (
        ("--name", spec.name),
        ("--workdir", spec.workdir),
        ("--runtime", spec.runtime),
        ("--network", spec.network),
        ("--ipc", spec.ipc),
        ("--pid", spec.pid),
        ("--shm-size", "" if spec.shm_bytes is None else size_word(spec.shm_bytes)),
    )
    yield from ((option, value) for option, value in single if value)
    for option, values in (
        ("--cap-add", spec.capabilities),
        ("--device", (*map(device_word, spec.devices), *spec.cdi)),
        ("--mount", map(mount_word, spec.mounts)),
        ("--publish", map(port_word, spec.ports)),
        ("--ulimit", map(ulimit_word, spec.ulimits)),
        ("--env", (f"{name}={value}" for name, value in spec.environment.items())),
        ("--label", (f"{name}={value}" for name, value in spec.labels.items())),
    ):
        yield from ((option, value) for value in values)


def device_word(device: str) -> str:
    """Return the value of --device, shortened to the path if it is the same inside and permissions are rwm."""
    source, target, permissions = device.split(":")
    return source if (source, permissions) == (target, "rwm") else device


def ulimit_word(limit: Ulimit) -> str:
    """Return the value of --ulimit: NAME=SOFT:HARD."""
    return f"{limit.name}={limit.soft}:{limit.hard}"


def _quote_csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def _quote_part(part: str) -> str:
    """Quote one word so that the shell expands $PWD and nothing else."""
    before, here, after = part.partition(f"source={HERE}")
    if not here:
        return shlex.quote(part)
    return f'"{_ACTIVE.sub(_ESCAPED, before)}{here}{_ACTIVE.sub(_ESCAPED, after)}"'

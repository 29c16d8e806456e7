"""The line of `docker run` that makes a Spec, for scripts and for a person: the one place that knows its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from installers.recipes.container_spec import Port, Spec, Ulimit
from installers.recipes.recipe import Mount

HERE = "$PWD"
_ACTIVE, _ESCAPED = re.compile(r'(["\\$`])'), r"\\\1"  # what double quotes leave alive
_UNITS = ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"))


def run_argv(spec: Spec) -> list[str]:
    """--mount, not -v: -v makes a folder of a source that is not there."""
    argv = ["docker", "run", "--detach"]
    flags = (("--interactive", spec.stdin), ("--tty", spec.tty), ("--privileged", spec.privileged))
    argv += [option for option, given in flags if given]
    for option, value in _options(spec):
        argv += [option, value]
    return [*argv, spec.image, *spec.command]


def shell_words(spec: Spec) -> tuple[str, ...]:
    """As `run_argv`, quoted to be pasted; sources below $PWD start at the folder in which it is pasted."""
    return tuple(_quoted(part) for part in run_argv(spec))


def mount_word(mount: Mount) -> str:
    """The value of --mount: a line of CSV, so that a comma in a path is quoted."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return ",".join(_csv(text) for text in [*fields, *(["readonly"] if mount.read_only else [])])


def port_word(port: Port) -> str:
    address = f"[{port.address}]" if ":" in port.address else port.address
    suffix = "" if port.protocol == "tcp" else f"/{port.protocol}"
    return f"{address}{':' if address else ''}{port.host}:{port.container}{suffix}"


def size_word(size: int) -> str:
    """137438953472 is 128g: the largest unit that loses nothing."""
    return next((f"{size // unit}{letter}" for unit, letter in _UNITS if size and size % unit == 0), str(size))


def _options(spec: Spec) -> Iterator[tuple[str, str]]:
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
    """The short form where it says the same."""
    source, target, permissions = device.split(":")
    return source if (source, permissions) == (target, "rwm") else device


def ulimit_word(limit: Ulimit) -> str:
    return f"{limit.name}={limit.soft}:{limit.hard}"


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def _quoted(part: str) -> str:
    """The shell fills in $PWD, and nothing else that a recipe may hold."""
    before, here, after = part.partition(f"source={HERE}")
    if not here:
        return shlex.quote(part)
    return f'"{_ACTIVE.sub(_ESCAPED, before)}{here}{_ACTIVE.sub(_ESCAPED, after)}"'

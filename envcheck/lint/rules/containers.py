"""What a container is given: memory, devices, rights, a name, ports; and what a step of a build leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.remarks import listed, warn
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.wrappers import ENGINES, bare
from envcheck.scripts.docker_commands import has_devices

_LEAST_MIB = 1024
_UNITS_MIB = {"": 2**-20, "b": 2**-20, "k": 2**-10, "m": 1, "g": 1024, "t": 2**20}


def shared_memory(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        host = any(word.text == "host" for word in container.all("--ipc"))
        own = any(mount.target == "/dev/shm" for mount in container.mounts) or container.has("--tmpfs")
        if not has_devices(container) or host or own or container.open:
            continue
        sizes = container.all("--shm-size")
        enough = container.written("--shm-size", "64g")
        if not sizes:
            name = container.written("--shm-size")
            seen = f"no {name}: 64 MB of shared memory, too little for data loaders and collectives"
            yield warn(container.place, seen, f"{enough}, or {container.written('--ipc', 'host')}")
        elif sizes[-1].known and (size := _mib(sizes[-1].text)) is not None and size < _LEAST_MIB:
            seen = f"{sizes[-1].text} of shared memory is too little for data loaders and collectives"
            yield warn(sizes[-1], seen, enough)


def _mib(text: str) -> float | None:
    """Of a size as docker writes it; None for what is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", text.lower())
    return float(found[1]) * _UNITS_MIB[found[2]] if found else None


def privileges(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        wide = list(_wide(container))
        if not wide:
            continue
        chosen = [name for name, _, _ in container.environment if "VISIBLE_DEVICES" in name]
        seen = f"{listed(dict.fromkeys(text for text, _ in wide))}: the container may do all that the host may"
        seen += f", and has all devices whatever {chosen[0]} says" if chosen and container.has("--privileged") else ""
        place = next((word for name, word in container.options if name in _PLACES), container.image)
        do = f"{container.written('--device')} for each card, and the manager nodes; no more."
        yield warn(place or container.command, seen, do)


_PLACES = ("--privileged", "--cap-add", "--pid")


def _wide(container: ScriptContainer) -> Iterator[tuple[str, Word]]:
    """What gives away the host."""
    for word in container.all("--privileged"):
        yield container.written("--privileged"), word
    for word in container.all("--cap-add"):
        if word.text.upper() in ("ALL", "SYS_ADMIN"):
            yield container.written("--cap-add", word.text), word
    for mount in container.mounts:
        if mount.source.rstrip("/") == "/dev":
            yield container.written("-v", "/dev:/dev"), mount.word
    for word in container.all("--pid"):
        if word.text == "host":
            yield container.written("--pid", "host"), word


def fixed_name(context: LintContext) -> Iterator[Remark]:
    """A second start fails on the name."""
    freed = any(
        {"rm", "rename", "inspect", "ps"} & set(command.texts()[1:3]) for _, command in context.commands(*ENGINES)
    )
    for container in context.containers:
        names, command = container.all("--name"), container.command
        kept = container.has("--rm", "--replace") or container.service
        if not names or not names[-1].known or kept or freed or command.guarded or "errexit" in command.shell:
            continue
        seen = f"the name {names[-1].text[:60]} is fixed, and no --rm: a second start fails"
        yield warn(names[-1], seen, "--rm, or docker rm first.")


def open_ports(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        wide = [
            word
            for word in container.all("-p", "--publish")
            if word.known and re.fullmatch(r"\d+(-\d+)?:\d+(-\d+)?(/\w+)?", word.text)
        ]
        if wide:
            seen = f"{listed(word.text for word in wide)}: open to everybody who reaches this host"
            yield warn(wide[0], seen, container.written("-p", f"127.0.0.1:{wide[0].text}"))


def layers(context: LintContext) -> Iterator[Remark]:
    """Each RUN is a shell of its own: what the last of its commands sets is gone with it."""
    for step in context.steps:
        given = [each for each in step.assigns if not each.prefix]
        command = step.commands[-1] if step.commands else None
        if given and (command is None or given[-1].start > command.end):
            seen = f"{given[-1].name} is set for this step of the build alone: the next ones do not have it"
            yield warn(given[-1], seen, f"ENV {given[-1].name}=...")
        elif command is not None and bare(command) in _LOST and not command.guarded:
            name = bare(command)
            seen = f"what {name} does ends with this step of the build: the next ones begin anew"
            yield warn(command, seen, _LOST[name])


_SOURCED = "In the same RUN as what needs it, joined by &&; for the container, ENV or an entrypoint."
_LOST = {"cd": "WORKDIR.", "source": _SOURCED, ".": _SOURCED}

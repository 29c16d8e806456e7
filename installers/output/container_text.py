"""What a container that is to be made will have, for people and for programs: every field that we set."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from envcheck.core.language import label, say
from envcheck.core.language.width import columns as wide
from envcheck.core.secrets import blank_value, redact
from installers.containers.host_paths import ContainerPlan
from installers.recipes.container_spec import Spec
from installers.recipes.docker_cli import device_word, port_word, size_word, ulimit_word
from installers.recipes.recipe import Mount

NAMED = 10  # columns of a row's name


def lines(drawn: ContainerPlan, columns: int | None) -> Iterator[str]:
    """A row for each field that is set; of a list as many as fit into `columns`, None for all, and the image's name,
    which the step that pulls it says."""
    if columns is None:
        yield f"{_head('image')}{drawn.spec.image}"
    for name, words in _rows(drawn):
        if words:
            yield f"{_head(name)}{_fitting(words, columns - NAMED if columns else None)}"


def _head(name: str) -> str:
    said = label(name)
    return said + " " * max(1, NAMED - wide(said))


def as_values(drawn: ContainerPlan) -> dict[str, Any]:
    """The whole of it; secrets among the variables blanked."""
    return asdict(drawn.spec) | {
        "environment": _environment(drawn.spec),
        "cards": drawn.container.grant.words,
        "as_published": drawn.container.as_published,
        "verified": drawn.container.is_verified,
        "makes_folders": list(drawn.folders),
    }


def _rows(drawn: ContainerPlan) -> tuple[tuple[str, tuple[str, ...]], ...]:
    spec = drawn.spec
    return (
        ("mounts", tuple(map(_mount, spec.mounts))),
        ("devices", (*map(device_word, spec.devices), *spec.cdi)),
        ("runtime", (spec.runtime,) if spec.runtime else ()),
        ("may", (say("all (privileged)"),) if spec.privileged else spec.capabilities),
        ("network", (spec.network or "bridge", *map(port_word, spec.ports))),
        ("shares", tuple(what + say(" of {}").format(of) for what, of in (("ipc", spec.ipc), ("pid", spec.pid)) if of)),
        ("shm", (size_word(spec.shm_bytes),) if spec.shm_bytes else ()),
        ("limits", tuple(map(ulimit_word, spec.ulimits))),
        ("env", tuple(f"{name}={value}" for name, value in _environment(spec).items())),
        ("workdir", (spec.workdir,) if spec.workdir else ()),
    )


def _environment(spec: Spec) -> dict[str, str]:
    return {name: blank_value(name, value) for name, value in spec.environment.items()}


def _mount(mount: Mount) -> str:
    """The target where it differs from the source."""
    same = posixpath.normpath(mount.source) == posixpath.normpath(mount.target)
    return redact(
        mount.source
        + ("" if same else say(" as {}").format(mount.target))
        + (say(" (read-only)") if mount.read_only else "")
    )


def _fitting(words: tuple[str, ...], columns: int | None) -> str:
    """As many as fit on one line, and how many are left; the first one always."""
    for count in range(len(words), 0, -1):
        left = len(words) - count
        text = ", ".join(words[:count]) + (say(", and {} more").format(left) if left else "")
        if columns is None or wide(text) <= columns:
            return text
    return text

"""A planned container as text and JSON: every field that envcheck sets."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from envcheck.core.language import translate
from envcheck.core.language.width import display_width as wide
from envcheck.core.messages import _, join, verbatim
from envcheck.core.secrets import redact_text, redact_variable
from installers.containers.host_paths import ContainerPlan
from installers.recipes.container_spec import ContainerSpec
from installers.recipes.docker_cli import device_word, port_word, size_word, ulimit_word
from installers.recipes.recipe import Mount

NAMED = 14  # columns for the name of a row


def render_lines(drawn: ContainerPlan, columns: int | None) -> Iterator[str]:
    """Yield a row for each field that is set, lists shortened to fit `columns`.

    `columns` None shows lists in full, and the image, which is otherwise only shown by the step that pulls it.
    """
    if columns is None:
        yield f"{_pad_name(_('image'))}{drawn.spec.image}"
    for name, words in _list_rows(drawn):
        if words:
            yield f"{_pad_name(name)}{_fit_to_width(words, columns - NAMED if columns else None)}"


def _pad_name(name: str) -> str:
    label = translate(name)
    return label + " " * max(1, NAMED - wide(label))


def build_values(drawn: ContainerPlan) -> dict[str, Any]:
    """Return all fields for JSON, with secrets in environment variables redacted."""
    return asdict(drawn.spec) | {
        "environment": _blank_secrets(drawn.spec),
        "cards": drawn.container.grant.words,
        "as_published": drawn.container.as_published,
        "verified": drawn.container.is_verified,
        "creates_directories": list(drawn.folders),
    }


def _list_rows(drawn: ContainerPlan) -> tuple[tuple[str, tuple[str, ...]], ...]:
    spec = drawn.spec
    return (
        (_("mounts"), tuple(map(_describe_mount, spec.mounts))),
        (_("devices"), (*map(device_word, spec.devices), *spec.cdi)),
        (_("runtime"), (spec.runtime,) if spec.runtime else ()),
        (_("capabilities"), (translate(_("all (privileged)")),) if spec.privileged else spec.capabilities),
        (_("network"), (spec.network or "bridge", *map(port_word, spec.ports))),
        (_("namespaces"), tuple(f"{name}={mode}" for name, mode in (("ipc", spec.ipc), ("pid", spec.pid)) if mode)),
        (_("shm"), (size_word(spec.shm_bytes),) if spec.shm_bytes else ()),
        (_("limits"), tuple(map(ulimit_word, spec.ulimits))),
        (_("env"), tuple(f"{name}={value}" for name, value in _blank_secrets(spec).items())),
        (_("workdir"), (spec.workdir,) if spec.workdir else ()),
    )


def _blank_secrets(spec: ContainerSpec) -> dict[str, str]:
    return {name: redact_variable(name, value) for name, value in spec.environment.items()}


def _describe_mount(mount: Mount) -> str:
    """Return a mount for display; the target only if it differs from the source."""
    source, target = mount.source, mount.target
    if posixpath.normpath(source) == posixpath.normpath(target):
        text = _("{source} (read-only)", source=source) if mount.read_only else verbatim(source)
    elif mount.read_only:
        text = _("{source} mounted at {target} (read-only)", source=source, target=target)
    else:
        text = _("{source} mounted at {target}", source=source, target=target)
    return redact_text(translate(text))


def _fit_to_width(words: tuple[str, ...], columns: int | None) -> str:
    """Return as many items as fit on one line, at least one, and the number of the others."""
    for count in range(len(words), 0, -1):
        text, left = translate(join(", ", words[:count])), len(words) - count
        if left:
            text = translate(_("{items}, and {count} more", items=text, count=left))
        if columns is None or wide(text) <= columns:
            return text
    return text

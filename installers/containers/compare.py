"""Compare `docker inspect` with a container specification field by field, and decide what to do.  Pure."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.messages import Message, _, join
from envcheck.core.secrets import redact_text
from installers.containers.inspect_document import EngineDefaults, flatten_inspect, flatten_spec
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import RECIPE_LABEL, ContainerSpec
from installers.recipes.docker_cli import shell_words


@dataclass(frozen=True)
class FieldDifference:
    """One field that differs; `wanted` and `there` are texts for display."""

    field: str
    wanted: str
    there: str


class ContainerAction(str, enum.Enum):
    """What to do about a container; REFUSE: it exists and must not be changed."""

    CREATE = "create"
    START = "start"
    REUSE = "reuse"
    RECREATE = "recreate"
    REFUSE = "refuse"


@dataclass(frozen=True)
class ContainerStatus:
    """The action for the container of this name, with the differences and the obstacle behind it."""

    action: ContainerAction
    differences: tuple[FieldDifference, ...] = ()
    obstacle: Obstacle | None = None


def decide_action(
    inspected: Mapping[str, Any] | None,
    spec: ContainerSpec,
    known: EngineDefaults | None = None,
    *,
    recreate: bool = False,
) -> ContainerStatus:
    """Decide the action: envcheck's container is reused if equal, and recreated only with `recreate` if it differs.

    `inspected` is None if there is no container.  A container that envcheck did not create is never changed.
    """
    if inspected is None:
        return ContainerStatus(ContainerAction.CREATE)
    owner = ((inspected.get("Config") or {}).get("Labels") or {}).get(RECIPE_LABEL)
    if not owner:
        return ContainerStatus(ContainerAction.REFUSE, (), _foreign_obstacle(spec))
    found = compare_container(inspected, spec, known)
    if found and not recreate:
        return ContainerStatus(ContainerAction.REFUSE, found, _difference_obstacle(spec, found))
    running = bool((inspected.get("State") or {}).get("Running"))
    action = ContainerAction.RECREATE if found else ContainerAction.REUSE if running else ContainerAction.START
    return ContainerStatus(action, found)


def explain_refusal(status: ContainerStatus) -> Message:
    """Return the reason of the status's obstacle on one line, with the differing fields."""
    assert status.obstacle
    differences = [
        _(
            "{field}: expected {wanted}, got {there}",
            field=d.field,
            wanted=" ".join(d.wanted.split()) or _("none"),
            there=" ".join(d.there.split()) or _("none"),
        )
        for d in status.differences
    ]
    reason = status.obstacle.why
    return _("{reason} ({differences})", reason=reason, differences=join("; ", differences)) if differences else reason


def compare_container(
    inspected: Mapping[str, Any], spec: ContainerSpec, known: EngineDefaults | None = None
) -> tuple[FieldDifference, ...]:
    """Return the fields that differ, in the order of the specification; different notations of one value are equal."""
    wanted, there = (
        flatten_spec(spec, known or EngineDefaults()),
        flatten_inspect(inspected, spec, known or EngineDefaults()),
    )
    return tuple(_diff_field(name, wanted[name], there[name]) for name in wanted if wanted[name] != there[name])


def render_commands(now: ContainerStatus, spec: ContainerSpec, folders: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the shell commands that carry out the action of `now`; `folders` are created first."""
    run, missing = " ".join(shell_words(spec)), tuple(folders)
    mkdir = (shlex.join(("mkdir", "-p", "--", *missing)),) if missing else ()
    return {
        ContainerAction.CREATE: (*mkdir, run),
        ContainerAction.RECREATE: (shlex.join(("docker", "rm", "--force", spec.name)), *mkdir, run),
        ContainerAction.START: (*mkdir, shlex.join(("docker", "start", spec.name))),
    }.get(now.action, ())


def _diff_field(name: str, wanted: str, there: str) -> FieldDifference:
    """Return the difference of a field; for lists only the lines that differ.  Secrets are redacted."""
    lines, others = wanted.split("\n"), there.split("\n")
    return FieldDifference(
        name,
        redact_text("\n".join(line for line in lines if line not in others)),
        redact_text("\n".join(line for line in others if line not in lines)),
    )


def _foreign_obstacle(spec: ContainerSpec) -> Obstacle:
    return Obstacle(
        _("container name {name} is in use by a container that envcheck did not create", name=spec.name),
        _(
            "inspect it with `docker inspect {name}`; if it is yours, rename it (`docker rename`) or remove it",
            name=spec.name,
        ),
        errors.CHECK_FAILED,
    )


def _difference_obstacle(spec: ContainerSpec, found: tuple[FieldDifference, ...]) -> Obstacle:
    names = join(", ", (difference.field for difference in found))
    return Obstacle(
        _("container {name} exists and differs from the plan in {names}", name=spec.name, names=names),
        _("add --recreate to remove and recreate the container; files written outside its mounts are lost"),
        errors.CHECK_FAILED,
    )

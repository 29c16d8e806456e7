"""What `docker inspect` says against the Spec, field by field, and what follows from it.  Pure."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.secrets import redact
from installers.containers.inspect_document import Defaults, of_inspect, of_spec
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import RECIPE_LABEL, Spec
from installers.recipes.docker_cli import shell_words


@dataclass(frozen=True)
class Difference:
    """One field, in words that a person can compare."""

    field: str
    wanted: str
    there: str


class Action(str, enum.Enum):
    CREATE = "create"
    START = "start"
    REUSE = "reuse"
    RECREATE = "recreate"
    REFUSE = "refuse"


@dataclass(frozen=True)
class ContainerStatus:
    """What is to be done about the container of this name, and why."""

    action: Action
    differences: tuple[Difference, ...] = ()
    obstacle: Obstacle | None = None


def standing(
    inspected: Mapping[str, Any] | None, spec: Spec, known: Defaults | None = None, *, recreate: bool = False
) -> ContainerStatus:
    """Ours and the same is used; ours and different needs `recreate`; a stranger's is never touched."""
    if inspected is None:
        return ContainerStatus(Action.CREATE)
    owner = ((inspected.get("Config") or {}).get("Labels") or {}).get(RECIPE_LABEL)
    if not owner:
        return ContainerStatus(Action.REFUSE, (), _stranger(spec))
    found = compare(inspected, spec, known)
    if found and not recreate:
        return ContainerStatus(Action.REFUSE, found, _different(spec, found))
    running = bool((inspected.get("State") or {}).get("Running"))
    action = Action.RECREATE if found else Action.REUSE if running else Action.START
    return ContainerStatus(action, found)


def differing_words(now: ContainerStatus) -> str:
    """The differing fields in brackets, on one line."""
    shown = "; ".join(f"{d.field}: wanted {d.wanted or 'none'}, there {d.there or 'none'}" for d in now.differences)
    return f" ({' '.join(shown.split())})" if shown else ""


def compare(inspected: Mapping[str, Any], spec: Spec, known: Defaults | None = None) -> tuple[Difference, ...]:
    """The fields that differ, in the Spec's order; the engine's own spelling of the same is no difference."""
    wanted, there = of_spec(spec, known or Defaults()), of_inspect(inspected, spec, known or Defaults())
    return tuple(_difference(name, wanted[name], there[name]) for name in wanted if wanted[name] != there[name])


def as_script(now: ContainerStatus, spec: Spec, folders: Iterable[str] = ()) -> tuple[str, ...]:
    """What a person would type to come from `now` to the Spec; `folders` are made first."""
    run, made = " ".join(shell_words(spec)), tuple(folders)
    mkdir = (shlex.join(("mkdir", "-p", "--", *made)),) if made else ()
    return {
        Action.CREATE: (*mkdir, run),
        Action.RECREATE: (shlex.join(("docker", "rm", "--force", spec.name)), *mkdir, run),
        Action.START: (*mkdir, shlex.join(("docker", "start", spec.name))),
    }.get(now.action, ())


def _difference(name: str, wanted: str, there: str) -> Difference:
    """Of lists only the lines that the other has not; secrets among the variables blanked."""
    lines, others = wanted.split("\n"), there.split("\n")
    return Difference(
        name,
        redact("\n".join(line for line in lines if line not in others)),
        redact("\n".join(line for line in others if line not in lines)),
    )


def _stranger(spec: Spec) -> Obstacle:
    return Obstacle(
        f"a container that envcheck did not make has the name {spec.name}",
        f"docker inspect {spec.name}; rename it (docker rename) or remove it if it is yours to remove",
        errors.UNFIT,
    )


def _different(spec: Spec, found: tuple[Difference, ...]) -> Obstacle:
    names = ", ".join(difference.field for difference in found)
    return Obstacle(
        f"the container {spec.name} is there and differs from the plan in {names}",
        "repeat with --recreate: it is removed and made anew, and what was written outside its mounts is lost",
        errors.UNFIT,
    )

"""Create, start or recreate the recipe's container."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from envcheck.core.messages import NOTHING, Message, _, fill, join, mark, verbatim
from installers.containers import lifecycle
from installers.containers.compare import ContainerAction, ContainerStatus
from installers.containers.compare import render_commands as container_lines
from installers.containers.host_paths import ContainerPlan
from installers.images import docker_engine, engine_lock
from installers.output import container_text
from installers.plan.step import Step
from installers.recipes.container_spec import ContainerSpec
from installers.recipes.docker_cli import shell_words
from installers.state import journal, state_file, undo_result
from installers.state.journal import Entry
from installers.steps.container_state import ContainerState
from installers.steps.pull_image import REMOVE_S
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext

TITLES: Mapping[ContainerAction, tuple[str, str]] = {
    ContainerAction.CREATE: (mark("create and start container {name}"), mark("no container of this name exists")),
    ContainerAction.START: (mark("start container {name}"), mark("the container is stopped")),
    ContainerAction.RECREATE: (mark("recreate container {name}"), mark("it differs from the recipe in {fields}")),
}


@dataclass(frozen=True, kw_only=True)
class RunContainer(Step):
    """`drawn` is the planned container, `action` is what to do to get it."""

    name: ClassVar[str] = "container"
    base_s: ClassVar[int] = 1  # measured
    reveals: ClassVar[bool] = True  # the packages in its image

    drawn: ContainerPlan
    action: ContainerAction

    def render_lines(self, columns: int | None) -> Iterator[str]:
        yield from container_text.render_lines(self.drawn, columns)

    def json_values(self) -> dict[str, Any]:
        return {"container": container_text.build_values(self.drawn)}


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[RunContainer]:
    if not isinstance(current, ContainerState):
        return
    action = current.standing.action if current.standing else ContainerAction.CREATE
    if action not in TITLES:
        return
    differing = join(", ", (d.field for d in current.standing.differences)) if current.standing else ""
    (title, why), drawn = TITLES[action], current.drawn
    grant = drawn.container.grant.words
    yield RunContainer(
        fill(title, name=drawn.spec.name),
        fill(why, fields=differing),
        _("runs a container ({grant}); creates {folders}", grant=grant, folders=join(", ", drawn.folders))
        if drawn.folders
        else _("runs a container ({grant})", grant=grant),
        verbatim(f"docker rm --force {drawn.spec.name}"),
        root=_("{folders} would be owned by root", folders=join(", ", current.of_root)) if current.of_root else NOTHING,
        drawn=drawn,
        action=action,
    )


def apply(step: RunContainer, work: StepContext) -> Message:
    """Create the folders, then create, start or recreate the container.

    Its options are recorded first, so that a run after an interruption uses the same ones.
    """
    name = step.drawn.spec.name
    if mark := state_file.load_state(work.folder):
        made = step.drawn.container
        state_file.save_state(work.folder, replace(mark, as_published=made.as_published, cards=made.cards))
    for folder in step.drawn.folders:
        journal.write_entry(work.folder, step.name, "made", deed=f"folder {folder}")
    lifecycle.make_folders(step.drawn.folders)
    if lifecycle.inspect_container(work.engine_client.api, name) is None:
        journal.write_entry(work.folder, step.name, "made", deed=f"container {name}")
    identity = lifecycle.ensure_running(
        work.engine_client.api, step.drawn.spec, recreate=step.action is ContainerAction.RECREATE
    )
    return _("{name} is running ({identity})", name=name, identity=identity[:12])


def verify(step: RunContainer, work: StepContext) -> Message | None:
    """Return why the container does not run as planned; None if it does."""
    return lifecycle.explain_mismatch(work.engine_client.api, step.drawn.spec)


def undo(entry: Entry, folder: Path) -> Message:
    """Remove the container, or an empty folder that was created for it."""
    kind, which = journal.split_deed(entry)
    if kind == "folder":
        with contextlib.suppress(OSError):  # not empty: the content belongs to the user
            Path(which).rmdir()
        return NOTHING
    with docker_engine.engine_client(REMOVE_S) as (host, client), engine_lock.hold_lock(host.url, which):
        if lifecycle.is_foreign(client.api, which):
            return undo_result.keep(_("a container of this name exists that envcheck did not create"))
        return _("removed") if lifecycle.remove_container(client.api, which) else _("already removed")


def script(step: RunContainer, at: ScriptTarget) -> Iterator[str]:
    lines = container_lines(ContainerStatus(step.action), step.drawn.spec, step.drawn.folders)
    yield from lines if step.action is ContainerAction.START else (*lines[:-1], _render_run(step.drawn.spec))
    yield from at.write_container_limits()


def _render_run(spec: ContainerSpec) -> str:
    """Return the `docker run` command with one option a line."""
    words = shell_words(spec)
    options, last = words[2 : -1 - len(spec.command)], words[-1 - len(spec.command) :]
    rows: list[str] = []
    for word in options:
        rows[len(rows) :] = [word] if word.startswith("--") else [f"{rows.pop()} {word}"]
    return " \\\n  ".join(["docker run", *rows, " ".join(last)])

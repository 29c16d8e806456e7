"""The recipe's container: made, started, or made anew where it differs from the recipe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from installers.containers import container
from installers.containers.compare import Action, ContainerStatus
from installers.containers.compare import as_script as container_lines
from installers.containers.host_paths import ContainerPlan
from installers.images import engine, engine_lock
from installers.output import container_text
from installers.plan.step import Step
from installers.recipes.container_spec import Spec
from installers.recipes.docker_cli import shell_words
from installers.state import journal, state_file
from installers.state.journal import Entry
from installers.steps.container_state import ContainerState
from installers.steps.pull_image import REMOVE_S
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

TITLES: Mapping[Action, tuple[str, str]] = {
    Action.CREATE: ("make and start the container {0}", "there is none of that name"),
    Action.START: ("start the container {0}", "it is there and does not run"),
    Action.RECREATE: ("make the container {0} anew", "it differs from the recipe in {1}"),
}


@dataclass(frozen=True, kw_only=True)
class RunContainer(Step):
    """`drawn` is the container as it is to run, `action` what has to be done for that."""

    name: ClassVar[str] = "container"
    base_s: ClassVar[int] = 1  # measured
    reveals: ClassVar[bool] = True  # what its image holds

    drawn: ContainerPlan
    action: Action

    def lines(self, columns: int | None) -> Iterator[str]:
        yield from container_text.lines(self.drawn, columns)

    def values(self) -> dict[str, Any]:
        return {"container": container_text.as_values(self.drawn)}


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[RunContainer]:
    if not isinstance(current, ContainerState):
        return
    action = current.standing.action if current.standing else Action.CREATE
    if action not in TITLES:
        return
    differing = ", ".join(d.field for d in current.standing.differences) if current.standing else ""
    (title, why), drawn = TITLES[action], current.drawn
    folders = f", and makes {', '.join(drawn.folders)}" if drawn.folders else ""
    yield RunContainer(
        title.format(drawn.spec.name),
        why.format("", differing),
        f"the engine runs it: {drawn.container.grant.words}{folders}",
        f"docker rm --force {drawn.spec.name}",
        root=f"{', '.join(current.of_root)} would be root's" if current.of_root else "",
        drawn=drawn,
        action=action,
    )


def apply(step: RunContainer, work: Work) -> str:
    """The container with its own folders; what differed and was ours is made anew.

    How it was asked for is noted first, so that a run after a cut goes on with it.
    """
    name = step.drawn.spec.name
    if mark := state_file.load(work.folder):
        state_file.save(work.folder, replace(mark, as_published=step.drawn.container.as_published))
    for folder in step.drawn.folders:
        journal.write(work.folder, step.name, "made", deed=f"folder {folder}")
    container.make_folders(step.drawn.folders)
    if container.look(work.engine.api, name) is None:
        journal.write(work.folder, step.name, "made", deed=f"container {name}")
    identity = container.ensure(work.engine.api, step.drawn.spec, recreate=step.action is Action.RECREATE)
    return f"{name} runs ({identity[:12]})"


def verify(step: RunContainer, work: Work) -> str | None:
    """It still runs, and as it was drawn."""
    return container.still_wrong(work.engine.api, step.drawn.spec)


def undo(entry: Entry, folder: Path) -> str:
    """Removes the container, or a folder that was made for it, if that is empty."""
    kind, which = journal.split_deed(entry)
    if kind == "folder":
        with contextlib.suppress(OSError):  # not empty: its content is the user's
            Path(which).rmdir()
        return ""
    with engine.connected(REMOVE_S) as (host, client), engine_lock.held(host.url, which):
        if container.is_strangers(client.api, which):
            return "kept, since it is another one by now, which envcheck did not make"
        return "removed" if container.remove(client.api, which) else "it is gone already"


def script(step: RunContainer, at: ScriptTarget) -> Iterator[str]:
    lines = container_lines(ContainerStatus(step.action), step.drawn.spec, step.drawn.folders)
    yield from lines if step.action is Action.START else (*lines[:-1], _run(step.drawn.spec))
    yield from at.boxed_limits()


def _run(spec: Spec) -> str:
    """An option a line."""
    words = shell_words(spec)
    options, last = words[2 : -1 - len(spec.command)], words[-1 - len(spec.command) :]
    rows: list[str] = []
    for word in options:
        rows[len(rows) :] = [word] if word.startswith("--") else [f"{rows.pop()} {word}"]
    return " \\\n  ".join(["docker run", *rows, " ".join(last)])

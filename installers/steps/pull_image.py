"""Pull the image of a recipe's container from a registry by digest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.messages import Message, _
from envcheck.core.units import MIB, format_mib
from installers.images import docker_engine, local_image, pull, pull_resume
from installers.images.local_image import UNPACKED
from installers.images.manifest import ResolvedImage
from installers.plan.step import Step
from installers.state import journal
from installers.state.journal import Entry
from installers.steps.container_state import ContainerState
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext

REMOVE_S = 600.0  # the engine answers once all files are deleted: up to 39 GB for a vendor's image, on a busy disk


@dataclass(frozen=True, kw_only=True)
class PullImage(Step):
    """`image` is None if no registry could be queried, which blocks the plan; `reference` is what docker pulls.

    `moves` is the local image that loses its tag to the pulled one, "" for none.
    """

    name: ClassVar[str] = "image"

    image: ResolvedImage | None
    reference: str
    moves: str = ""


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[PullImage]:
    if not isinstance(current, ContainerState) or current.here or desired.supply.bundle:
        return
    found, root = current.found, current.engine.root or _("the engine")
    name = str(found.reference) if found else current.drawn.spec.image
    size = format_mib(found.compressed_bytes / MIB) if found and found.layers else ""
    changes = _("adds the image to {root}", root=root)
    if current.moved:
        changes = _("adds the image to {root} and moves the tag to it", root=root)
        if size:
            changes = _("adds the image to {root} ({size} to download) and moves the tag to it", root=root, size=size)
    elif size:
        changes = _("adds the image to {root} ({size} to download)", root=root, size=size)
    yield PullImage(
        _("pull {name} for {architecture}", name=name, architecture=found.architecture)
        if found
        else _("pull {name}", name=name),
        _("the tag has moved: the engine has another image of this name")
        if current.moved
        else _("the engine does not have it"),
        changes,
        _("envcheck provision --recipe {name} --undo, or docker image rm", name=desired.recipe.name),
        round(found.compressed_bytes * UNPACKED / MIB) if found else 0,
        image=found,
        reference=str(found.pinned_reference) if found else current.drawn.spec.image,
        moves=current.moved,
    )


def apply(step: PullImage, work: StepContext) -> Message:
    """Pull by digest.  It is recorded for an undo before the pull, because the run may be interrupted right after."""
    assert step.image
    names = [str(step.image.pinned_reference), str(step.image.reference)]
    note = {"names": names} | ({"was": step.moves} if step.moves else {})
    journal.write_entry(
        work.folder, step.name, "made", deed=f"image {step.image.image_id or step.image.digest}", **note
    )
    there = pull.pull_image(work.engine_client, step.image, work.report, moves=bool(step.moves))
    if there.image_id != step.image.image_id:  # in the containerd store, image ids are digests of manifests
        journal.write_entry(work.folder, step.name, "made", deed=f"image {there.image_id}", **note)
    return _("{reference} ({digest})", reference=step.image.reference, digest=there.digest or there.image_id)


def verify(step: PullImage, work: StepContext) -> Message | None:
    """Return None: `apply` already checks the digest."""
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Remove the image, and give back a tag that its pull has moved."""
    names = entry.get("names")
    known = [str(name) for name in names] if isinstance(names, list) else []
    with docker_engine.engine_client(REMOVE_S) as (_unused, client):
        for digest in (name.partition("@")[2] for name in known if "@" in name):
            pull_resume.remove_unfinished(client, digest)
        result = local_image.remove_image(client, journal.split_deed(entry)[1], known)
        if entry.get("was"):
            local_image.restore_tags(client, str(entry["was"]), known)
        return result


def script(step: PullImage, at: ScriptTarget) -> Iterator[str]:
    """Pull by digest if the registry was queried, else by the name of the container's image."""
    yield f"docker pull {shlex.quote(step.reference)}"

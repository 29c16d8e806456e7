"""The image of a recipe's container, pulled from a registry by its digest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.units import MIB, mib
from installers.images import engine, image, image_pull, pull_resume
from installers.images.image import UNPACKED
from installers.images.manifest import ResolvedImage
from installers.plan.step import Step
from installers.state import journal
from installers.state.journal import Entry
from installers.steps.container_state import ContainerState
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

REMOVE_S = 600.0  # the engine answers when all files are deleted: those of a vendor's image of 39 GB, on a busy disk
_MOVED = "; its tag leads there then, and the one that is here keeps its digest alone"


@dataclass(frozen=True, kw_only=True)
class PullImage(Step):
    """`image` is None where no registry could be asked, which stops the plan; `reference` is what docker pulls.

    `moves` is the image from which the pulled one takes its tag.
    """

    name: ClassVar[str] = "image"

    image: ResolvedImage | None
    reference: str
    moves: str = ""


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[PullImage]:
    if not isinstance(current, ContainerState) or current.here or desired.supply.bundle:
        return
    found, root = current.found, current.engine.root or "the engine"
    name = str(found.reference) if found else current.drawn.spec.image
    size = f" ({mib(found.compressed_bytes / MIB)} to fetch)" if found else ""
    yield PullImage(
        f"pull {name}" + (f" for {found.architecture}" if found else ""),
        "the engine has another one under this name: the tag has moved"
        if current.moved
        else "the engine does not have it",
        f"adds the image to {root}{size}{_MOVED if current.moved else ''}",
        f"envcheck provision --recipe {desired.recipe.name} --undo, or docker image rm",
        round(found.compressed_bytes * UNPACKED / MIB) if found else 0,
        image=found,
        reference=str(found.pinned) if found else current.drawn.spec.image,
        moves=current.moved,
    )


def apply(step: PullImage, work: Work) -> str:
    """By digest.  What an undo takes back is noted before it is there, as a cut may come right after."""
    assert step.image
    names = [str(step.image.pinned), str(step.image.reference)]
    note = {"names": names} | ({"was": step.moves} if step.moves else {})
    journal.write(work.folder, step.name, "made", deed=f"image {step.image.image_id}", **note)
    there = image_pull.pull(work.engine, step.image, work.report, moves=bool(step.moves))
    if there.image_id != step.image.image_id:  # containerd's store knows images by their manifest
        journal.write(work.folder, step.name, "made", deed=f"image {there.image_id}", **note)
    return f"{step.image.reference} is {there.digest or there.image_id}"


def verify(step: PullImage, work: Work) -> str | None:
    """Nothing more: it was verified by its digest when it came."""
    return None


def undo(entry: Entry, folder: Path) -> str:
    """Takes the image from the engine, and leads a tag that it took back to where it led."""
    names = entry.get("names")
    known = [str(name) for name in names] if isinstance(names, list) else []
    with engine.connected(REMOVE_S) as (_, client):
        for digest in (name.partition("@")[2] for name in known if "@" in name):
            pull_resume.forget(client, digest)
        told = image.undo(client, journal.split_deed(entry)[1], known)
        if entry.get("was"):
            image.lead_back(client, str(entry["was"]), known)
        return told


def script(step: PullImage, at: ScriptTarget) -> Iterator[str]:
    """By digest where the registry was asked; else by the name that the container is made from."""
    yield f"docker pull {shlex.quote(step.reference)}"

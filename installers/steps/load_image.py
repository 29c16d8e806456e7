"""The image of a recipe's container, loaded from a bundle instead of a registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.units import MIB
from installers.bundle import from_bundle
from installers.plan.step import Step
from installers.state.journal import Entry
from installers.steps import pull_image
from installers.steps.container_state import ContainerState
from installers.steps.shell_script import ScriptTarget, not_written
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work


@dataclass(frozen=True, kw_only=True)
class LoadImage(Step):
    """Which one, the bundle knows."""

    name: ClassVar[str] = "load"
    reveals: ClassVar[bool] = True  # the name by which this engine knows the image, and the container is drawn


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[LoadImage]:
    bundle = desired.supply.bundle
    if not isinstance(current, ContainerState) or current.here or not bundle or not bundle.image:
        return
    yield LoadImage(
        f"load the image {bundle.image.reference} from the bundle {bundle.path.name}",
        "the engine does not have it",
        f"adds the image to {current.engine.root or 'the engine'}",
        f"envcheck provision --recipe {desired.recipe.name} --undo, or docker image rm",
        round(sum(layer.size for layer in bundle.image.layers) / MIB),
    )


def apply(step: LoadImage, work: Work) -> str:
    return from_bundle.load(work.engine, work.terms, work.folder, work.report)


def verify(step: LoadImage, work: Work) -> str | None:
    """Nothing more: it was verified by its id when it came."""
    return None


def undo(entry: Entry, folder: Path) -> str:
    """As of one that was pulled: the engine does not tell them apart."""
    return pull_image.undo(entry, folder)


def script(step: LoadImage, at: ScriptTarget) -> Iterator[str]:
    return not_written()

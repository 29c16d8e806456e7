"""Load the image of a recipe's container from a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.messages import Message, _
from envcheck.core.units import MIB
from installers.bundle import offline
from installers.plan.step import Step
from installers.state.journal import Entry
from installers.steps import pull_image
from installers.steps.container_state import ContainerState
from installers.steps.shell_script import ScriptTarget, not_written
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext


@dataclass(frozen=True, kw_only=True)
class LoadImage(Step):
    """Loads the image of the bundle."""

    name: ClassVar[str] = "load"
    reveals: ClassVar[bool] = True  # the name of the image in this engine, which the container plan needs


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[LoadImage]:
    bundle = desired.supply.bundle
    if not isinstance(current, ContainerState) or current.here or not bundle or not bundle.image:
        return
    yield LoadImage(
        _("load image {reference} from bundle {name}", reference=bundle.image.reference, name=bundle.path.name),
        _("the engine does not have it"),
        _("adds the image to {root}", root=current.engine.root or _("the engine")),
        _("envcheck provision --recipe {name} --undo, or docker image rm", name=desired.recipe.name),
        round(sum(layer.size for layer in bundle.image.layers) / MIB),
    )


def apply(step: LoadImage, work: StepContext) -> Message:
    return offline.load_image(work.engine_client, work.effective_supply, work.folder, work.report)


def verify(step: LoadImage, work: StepContext) -> Message | None:
    """Return None: `apply` already checks the image id."""
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Remove the image, as for a pulled one."""
    return pull_image.undo(entry, folder)


def script(step: LoadImage, at: ScriptTarget) -> Iterator[str]:
    return not_written()

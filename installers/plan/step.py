"""A provisioning plan: its steps, satisfied requirements, manual steps and obstacles.

The kinds of steps are the modules of installers.steps; this is their base class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from envcheck.core.messages import NOTHING, Message, _
from installers.plan.requirement import Obstacle
from installers.recipes.manual_steps import ManualStep

RATE_MIB_S = 10  # assumed download rate


@dataclass(frozen=True)
class Step:
    """One step of a plan with its texts; each kind adds the data that it needs.

    `root` is why it needs root, "" if it does not (access to the engine's socket is not root).
    """

    name: ClassVar[str] = ""  # name of the kind, in the journal, in the state file and in --json
    base_s: ClassVar[int] = 0  # seconds, in addition to downloads
    tells_time: ClassVar[bool] = False  # its reason already contains the duration
    changes_environment: ClassVar[bool] = True  # an interruption invalidates the verification
    reveals: ClassVar[bool] = False  # the plan is updated after it: only then it is known what else is missing

    title: Message
    why: Message
    changes: Message
    undo: Message
    size_mib: int = 0
    root: Message = NOTHING

    @property
    def duration_s(self) -> int:
        """Return the estimated duration in seconds."""
        return self.base_s + self.size_mib // RATE_MIB_S

    @property
    def root_words(self) -> Message:
        """Return whether root is required, and why, for the plan."""
        return _("required, {why}", why=self.root) if self.root else _("no")

    @property
    def outside_folder(self) -> str:
        """Return the folder outside of the environment that the step writes to, "" if there is none."""
        return ""

    def render_lines(self, columns: int | None) -> Iterator[str]:
        """Yield further lines for the plan, lists shortened to fit `columns`; most kinds have none."""
        yield from ()

    def json_values(self) -> dict[str, Any]:
        """Return further fields for --json; most kinds have none."""
        return {}


@dataclass(frozen=True)
class Plan:
    """`steps` are carried out; `satisfied` is done already; `manual_steps` are for the user; any obstacle blocks all.

    `skipped` are optional parts that were not requested, `notes` are notes that block nothing.  `job` is the document
    of the job, `assumed_host` the host that it is resolved for, "" for this machine, and `reason` why the job was
    selected, if the user did not name it.  `site` are the site's effective settings, without secrets.
    """

    recipe: str
    folder: Path
    steps: tuple[Step, ...]
    satisfied: tuple[Message, ...] = ()
    manual_steps: tuple[ManualStep, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    container: str = ""  # name of the container, if the recipe uses one
    skipped: tuple[Message, ...] = ()
    notes: tuple[Message, ...] = ()
    job: Mapping[str, Any] | None = None
    assumed_host: Message = NOTHING
    reason: Message = NOTHING
    site: Mapping[str, str] = field(default_factory=dict)

    @property
    def first_obstacle(self) -> Obstacle | None:
        """Return the first obstacle, which decides the exit code; None if there is none."""
        return next(iter(self.obstacles), None)

    @property
    def unready_steps(self) -> tuple[Step, ...]:
        """Return the steps that must be done before anything can run in the environment."""
        return tuple(step for step in self.steps if step.changes_environment)

"""What a plan of provisioning is: steps, what is so already, what a person must see to, and what is in the way.

The kinds of steps are modules of installers.steps; what is common to all kinds stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from installers.plan.requirement import Obstacle
from installers.recipes.by_hand import ByHand

RATE_MIB_S = 10  # of what is fetched: an office line


@dataclass(frozen=True)
class Step:
    """What is planned to be done, in words for people; each kind adds what it needs to do it.

    `root` is why root alone can do it, "" where anybody can (who may use the engine's socket is no root).
    """

    name: ClassVar[str] = ""  # the kind's: in the journal, in the state file and in --json
    base_s: ClassVar[int] = 0  # seconds beside those for what is fetched
    tells_time: ClassVar[bool] = False  # its reason says how long it may take
    changes_environment: ClassVar[bool] = True  # cut off, it leaves an environment that is not as it was proved
    reveals: ClassVar[bool] = False  # what else is missing can be seen only when it is done

    title: str
    why: str
    changes: str
    undo: str
    size_mib: int = 0
    root: str = ""

    @property
    def seconds(self) -> int:
        """Roughly how long it takes."""
        return self.base_s + self.size_mib // RATE_MIB_S

    @property
    def root_words(self) -> str:
        return f"needed, {self.root}" if self.root else "no"

    @property
    def outside(self) -> str:
        """The folder outside of the environment that it writes, "" where there is none."""
        return ""

    def lines(self, columns: int | None) -> Iterator[str]:
        """What a plan shows below its words, lists cut to fit `columns`; nothing of most kinds."""
        yield from ()

    def values(self) -> dict[str, Any]:
        """What --json holds beside its words; nothing of most kinds."""
        return {}


@dataclass(frozen=True)
class Plan:
    """`steps` are done here; `satisfied` is so already; `by_hand` a person must see to; each of `obstacles` stops all.

    `left_out` is what nobody asked for, `mind` what stops nothing and should be known.
    `job` is the document of the job that it is for, `assumed_host` the host for which that is resolved, "" for this
    machine, and `reason` why it was chosen, where nobody named it.
    """

    recipe: str
    folder: Path
    steps: tuple[Step, ...]
    satisfied: tuple[str, ...] = ()
    by_hand: tuple[ByHand, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    boxed: str = ""  # the container's name, where the recipe lives in one
    left_out: tuple[str, ...] = ()
    mind: tuple[str, ...] = ()
    job: Mapping[str, Any] | None = None
    assumed_host: str = ""
    reason: str = ""

    @property
    def obstacle(self) -> Obstacle | None:
        """The first, whose exit code counts."""
        return next(iter(self.obstacles), None)

    @property
    def unready(self) -> tuple[Step, ...]:
        """The steps before which nothing can run in the environment."""
        return tuple(step for step in self.steps if step.changes_environment)

"""Where a training runs: on this host (or inside the container that envcheck itself is in), or in the recipe's
container, which is entered from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from launch.clean import Clean
from launch.command import Command


@dataclass(frozen=True)
class Sight:
    """What a training would find there.  `missing` is what provision would do, `obstacle` why nothing can run there;
    `sizes` of the files that the job reads, None for what is not there; `marks` are the run folders of processes that
    run there, by pid; `environment` is what a command finds, `packages` are the versions installed."""

    environment: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    obstacle: str = ""
    next_step: str = ""
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    free_bytes: int | None = None
    marks: Mapping[int, str] = field(default_factory=dict)
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


class Family(Protocol):
    """The processes of a run: `dead` holds when each worker (by rank) died and its code, None where nobody saw it."""

    dead: dict[int, tuple[float, int | None]]
    peak_bytes: int

    def look(self) -> None: ...

    def wait(self, seconds: float) -> None:
        """So long, or until a worker dies."""

    def close(self) -> None: ...


class Training(Protocol):
    """A training that was started."""

    @property
    def family(self) -> Family: ...

    def poll(self) -> int | None:
        """The launcher's status once it has ended, minus the signal's number for a killed one."""

    def end(self) -> None:
        """Nothing of it runs when this returns; what it wrote has come to the run's folder on this host."""

    def outputs(self) -> list[str]:
        """The checkpoint folders that it made."""


class Stage(Protocol):
    """`title` in words; `container` is its name, "" for none."""

    @property
    def title(self) -> str: ...

    @property
    def container(self) -> str: ...

    def values(self, run: Path | None) -> dict[str, str]:
        """What the place fills into the command; without a run the script's own variables stay."""

    def look(self, paths: Sequence[str], workdir: str, runs: Path) -> Sight: ...

    def start(self, command: Command, clean: Clean, run: Path) -> Training:
        """StepError where the first program cannot be started at all."""

    def mark(self, run: Path) -> str:
        """The run's folder as processes there know it."""

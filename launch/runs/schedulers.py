"""Where a run goes on that no process of this machine has: in Slurm, or in a cluster of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from launch.runs.known import Run

KEYS = ("slurm", "kubernetes")  # of a record: who has it, as a table
Look = Callable[[Path], "Run | None"]
Logs = tuple[Path, Callable[[bool], None]]


class Scheduler(Protocol):
    """A module that knows such runs."""

    def read(self, folder: Path, said: dict[str, Any]) -> Run:
        """As it stands now; what has ended is written down."""

    def near(self, run: Run) -> AbstractContextManager[Logs]:
        """The folder with the logs of its first node, and what brings the newest lines there, now or when it is due."""

    def wait(self, run: Run, say: Callable[[str], None], look: Look) -> Run:
        """Until it trains, or is over."""

    def standing(self, run: Run) -> str:
        """In words: 'job 12 waits: Resources'"""

    def states(self, run: Run) -> list[str]:
        """How its nodes ended, each."""

    def stop(self, run: Run, look: Look) -> Run:
        """All of it, and the record written."""


def of(said: Mapping[str, Any]) -> Scheduler | None:
    """None for a run of this machine."""
    if isinstance(said.get("slurm"), dict):
        from launch.backends.slurm import run_entry

        return run_entry
    if isinstance(said.get("kubernetes"), dict):
        from launch.backends.k8s import run_entry as cluster

        return cluster
    return None

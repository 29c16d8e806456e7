"""Who runs a training besides this machine itself: the backends, and what each can do.

A backend is a folder launch/backends/NAME.  Its package exports BACKEND; two modules with fixed names are loaded when
they are needed: session.py (`train --on NAME`) and run_entry.py (its jobs among the runs of `envcheck runs`).  To add
one: the folder, and its name in NAMES.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:  # the help of train needs the options alone
    from launch.runs.run_state import Run
    from launch.targets.request import TrainRequest

PACKAGE = "launch.backends"
NAMES = ("slurm", "k8s")
LOCAL = "local"  # this machine itself, which is no backend
Look = Callable[[Path], "Run | None"]
Logs = tuple[Path, Callable[[bool], None]]
Own = Mapping[str, Any]  # the values of a backend's own options, by their names


@dataclass(frozen=True)
class BackendOption:
    """An option of `train` that one backend has: `word` is --NAME, `more` are click.option's own parameters."""

    word: str
    more: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.word.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class Backend:
    """`name` is the word of --on and of the folder; `record_key` the table in the record of a run that it has."""

    name: str
    title: str
    record_key: str
    options: tuple[BackendOption, ...] = ()


@dataclass(frozen=True)
class PreviewOptions:
    """Nothing is started where one of these is said: only shown, shown as a script, written into a folder."""

    dry_run: bool = False
    as_script: bool = False
    write: Path | None = None


class BackendSession(Protocol):
    """A backend's session.py."""

    def train(self, request: TrainRequest, own: Own, shown: PreviewOptions) -> int: ...


class Scheduler(Protocol):
    """A backend's run_entry.py."""

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


def option(word: str, **more: Any) -> BackendOption:
    return BackendOption(word, more)


@functools.cache
def load_backends() -> dict[str, Backend]:
    """By their names, in the order of NAMES."""
    found = (importlib.import_module(f"{PACKAGE}.{name}").BACKEND for name in NAMES)
    return {backend.name: backend for backend in found}


def find_backend(said: Mapping[str, Any]) -> Backend | None:
    """Whose job the record is of; None for a run of this machine."""
    return next((one for one in load_backends().values() if isinstance(said.get(one.record_key), dict)), None)


def find_scheduler(said: Mapping[str, Any]) -> Scheduler | None:
    """What knows how that job stands; None for a run of this machine."""
    backend = find_backend(said)
    return cast(Scheduler, importlib.import_module(f"{PACKAGE}.{backend.name}.run_entry")) if backend else None


def load_session(name: str) -> BackendSession | None:
    """What trains there; None for this machine itself."""
    return None if name == LOCAL else cast(BackendSession, importlib.import_module(f"{PACKAGE}.{name}.session"))

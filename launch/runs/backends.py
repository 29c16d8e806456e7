"""The backends that run a training elsewhere than on this machine.

A backend is a folder launch/backends/NAME.  Its package exports BACKEND; two modules are imported on demand: session.py
(`train --on NAME`) and run_entry.py (its jobs in `envcheck runs`).  To add one: the folder, and its name in NAMES.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:  # the help of train needs only the options
    from launch.runs.run_state import Run
    from launch.targets.train_request import TrainRequest

PACKAGE = "launch.backends"
NAMES = ("slurm", "k8s")
LOCAL = "local"  # --on local: this machine, without a backend
RunReader = Callable[[Path], "Run | None"]
LogSource = tuple[Path, Callable[[bool], None]]
OwnOptions = Mapping[str, Any]  # values of the backend's options by name


@dataclass(frozen=True)
class BackendOption:
    """An option of `train` for one backend: `word` is --NAME, `more` are parameters of click.option.

    `is_common`: shown in `train --help`; other options only in `train --help-all`.
    """

    word: str
    more: Mapping[str, Any]
    is_common: bool = False

    @property
    def name(self) -> str:
        """Name of the parameter in Python."""
        return self.word.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class Backend:
    """A backend: `name` for --on and of its folder; `record_key` is the key of its table in records of runs."""

    name: str
    title: str
    record_key: str
    options: tuple[BackendOption, ...] = ()


@dataclass(frozen=True)
class PreviewOptions:
    """Options that show the job (as text or script) or write its files, instead of starting it."""

    dry_run: bool = False
    as_script: bool = False
    write: Path | None = None


class BackendSession(Protocol):
    """The interface of a backend's session.py."""

    def train(self, request: TrainRequest, own: OwnOptions, shown: PreviewOptions) -> int:
        """Submit or show the training; return the exit code."""


class Scheduler(Protocol):
    """The interface of a backend's run_entry.py."""

    def read_run(self, folder: Path, said: dict[str, Any]) -> Run:
        """Return the run in its current state; writes the final state to its record."""

    def open_logs(self, run: Run) -> AbstractContextManager[LogSource]:
        """Yield the log folder of the first node, and a function that fetches new lines (if True: immediately)."""

    def wait_until_started(self, run: Run, say: Callable[[str], None], look: RunReader) -> Run:
        """Wait until the run trains or has ended; `say` gets status changes."""

    def describe_status(self, run: Run) -> str:
        """Return the status as text, such as 'job 12 waits: Resources'."""

    def list_node_states(self, run: Run) -> list[str]:
        """Return the final state of each node."""

    def stop_run(self, run: Run, look: RunReader) -> Run:
        """End the whole job and write its record; return the run."""


def define_option(word: str, is_common: bool = False, **more: Any) -> BackendOption:
    """Return an option; `more` are parameters of click.option."""
    return BackendOption(word, more, is_common)


@functools.cache
def load_backends() -> dict[str, Backend]:
    """Return name → backend in the order of NAMES."""
    found = (importlib.import_module(f"{PACKAGE}.{name}").BACKEND for name in NAMES)
    return {backend.name: backend for backend in found}


def find_backend(said: Mapping[str, Any]) -> Backend | None:
    """Return the backend of a recorded run, None for a run of this machine."""
    return next((one for one in load_backends().values() if isinstance(said.get(one.record_key), dict)), None)


def find_scheduler(said: Mapping[str, Any]) -> Scheduler | None:
    """Return the run_entry module of a recorded run's backend, None for a run of this machine."""
    backend = find_backend(said)
    return cast(Scheduler, importlib.import_module(f"{PACKAGE}.{backend.name}.run_entry")) if backend else None


def load_session(name: str) -> BackendSession | None:
    """Return the session module of a backend, None for LOCAL."""
    return None if name == LOCAL else cast(BackendSession, importlib.import_module(f"{PACKAGE}.{name}.session"))

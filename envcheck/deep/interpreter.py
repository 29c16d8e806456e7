"""A Python interpreter with paddle or torch, the sizes of the tests, and the result of one test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envcheck.core import process
from envcheck.core.local_files import LocalFiles, recreate_folder
from envcheck.core.process import CommandResult

LOG_BYTES = 1 << 16


class CommandTarget(Protocol):
    """The host or container with the interpreter: the methods used of an installers.targets.target.Target."""

    @property
    def python(self) -> str:
        """The path of the Python on the target."""

    def run_command(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str], on_line: process.OnLine | None = None
    ) -> CommandResult:
        """Run a command on the target until it ends or the deadline expires."""

    def stop_command(self, argv: Sequence[str]) -> None:
        """Stop the command that another thread is running."""

    def make_empty_folder(self, name: str) -> str:
        """Create a work folder with this name, empty it, and return its path."""

    def write_file(self, path: str, content: str) -> None:
        """Write a UTF-8 text file."""

    def read_file(self, path: str) -> str:
        """Return the start of a text file, or an empty text if it cannot be read."""

    def list_folder(self, folder: str) -> list[str]:
        """Return the names in a folder, or [] if it cannot be read."""


@dataclass(frozen=True)
class PythonInterpreter:
    """A Python with the framework.

    `kind` is the framework's name of the device, which `module` registers with torch; `backend` is torch's collective
    backend.  `wrap` adds the environment scripts to a command; `launch` returns the framework's launcher for a folder
    and a number of ranks.  `shared`: stopping one command stops all commands of envcheck on that target.
    """

    target: CommandTarget
    title: str
    kit: str
    kind: str
    env: Mapping[str, str]
    launch: Callable[[str, int], Sequence[str]]
    wrap: Callable[[Sequence[str]], Sequence[str]] = tuple
    shared: bool = False
    module: str = ""
    backend: str = ""

    @property
    def framework(self) -> dict[str, str]:
        """The fields of program.py's request that describe the framework."""
        fields = {"kit": self.kit, "kind": self.kind, "module": self.module, "backend": self.backend}
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True)
class Sizes:
    """Time limits and sizes of the tests.

    `budget_s` is the time for each measurement, `patience_s` the time after which a test counts as hung, `start_s` the
    time for importing the framework.  `rows` (of a square matrix) and `mib` (of a copy) are the first and the last size
    tried.
    """

    budget_s: float = 1.0
    patience_s: float = 120.0  # the first kernel of a card is compiled, which takes CANN up to a minute
    rows: tuple[int, int] = (256, 8192)
    mib: tuple[int, int] = (1, 256)
    piece_mib: int = 64
    start_s: float = 120.0  # paddle's import takes 1.2 s warm, 15 s cold on a busy machine
    grace_s: float = 10.0  # after patience_s, for a child that cannot end itself


@dataclass(frozen=True)
class DeepResult:
    """The result of one test on one card or pair: its figures, or its `error`. `lost`: the process was lost, it `hung`
    or crashed."""

    test: str
    cards: tuple[int, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    hung: bool = False
    lost: bool = False
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostTarget(LocalFiles):
    """A Python on this host, with a folder for the files of the tests."""

    limit = LOG_BYTES
    python: str
    own: Path

    def run_command(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str], on_line: process.OnLine | None = None
    ) -> CommandResult:
        """Run a command in the work folder."""
        return process.run_command(argv, timeout_s=timeout_s, env=env, cwd=self.own, on_line=on_line)

    def make_empty_folder(self, name: str) -> str:
        """Create an empty folder in the work folder, and return its path."""
        return recreate_folder(self.own / name)

"""A Python that has paddle or torch, what it is asked for, and what it said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envcheck.core import process
from envcheck.core.local_files import OnHost, emptied
from envcheck.core.process import CommandResult

LOG_BYTES = 1 << 16


class CommandTarget(Protocol):
    """Where the Python is: what this needs of an installers.targets.target.Target."""

    @property
    def python(self) -> str: ...

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str], on_line: process.OnLine | None = None
    ) -> CommandResult: ...

    def stop(self, argv: Sequence[str]) -> None: ...

    def fresh(self, name: str) -> str: ...

    def write(self, path: str, content: str) -> None: ...

    def read(self, path: str) -> str: ...

    def names(self, folder: str) -> list[str]: ...


@dataclass(frozen=True)
class PythonInterpreter:
    """A Python that has the framework: `kind` is its name of the device, which `module` registers with torch, `backend`
    that of torch's collectives; `wrap` sources what it needs, `launch` is the framework's launcher for a folder and a
    count of ranks.  Where `shared`, stopping one command ends all that envcheck runs there."""

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
        """What program.py is told of it."""
        told = {"kit": self.kit, "kind": self.kind, "module": self.module, "backend": self.backend}
        return {key: value for key, value in told.items() if value}


@dataclass(frozen=True)
class Sizes:
    """`budget_s` is the time that each figure may take, `patience_s` that of a test before it counts as hung, `start_s`
    that of importing the framework.

    The sizes are the first and the last that are tried: rows of a square product, MiB of a copy.
    """

    budget_s: float = 1.0
    patience_s: float = 120.0  # the first kernel of a card is compiled, which takes CANN up to a minute
    rows: tuple[int, int] = (256, 8192)
    mib: tuple[int, int] = (1, 256)
    piece_mib: int = 64
    start_s: float = 120.0  # paddle's import takes 1.2 s warm, 15 s cold on a busy machine
    grace_s: float = 10.0  # after patience_s, for a child that cannot end itself


@dataclass(frozen=True)
class Said:
    """How one test on one card or pair went: its figures, or its `error`; `lost`: with its process, which `hung` or
    fell over."""

    test: str
    cards: tuple[int, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    hung: bool = False
    lost: bool = False
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostTarget(OnHost):
    """A Python of this host, with a folder for what the tests write."""

    limit = LOG_BYTES
    python: str
    own: Path

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str], on_line: process.OnLine | None = None
    ) -> CommandResult:
        return process.run(argv, timeout_s=timeout_s, env=env, cwd=self.own, on_line=on_line)

    def fresh(self, name: str) -> str:
        return emptied(self.own / name)

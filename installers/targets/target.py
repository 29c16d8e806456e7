"""Where a recipe's Python stands, so that packages and proof need not know: on this host, or in the container.

A target has a folder of its own there (`own`), and one on this host for what outlives it (`notes`: journal, logs,
lock).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envcheck.core import process
from envcheck.core.errors import StepError
from envcheck.core.local_files import OnHost, emptied
from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact
from installers.state import environment, state_file
from installers.state.environment import Environment

LIMIT = 1 << 20  # bytes of a file of ours; logs are quoted by their last lines
_BEGIN, _END = "ENVCHECK-ANSWERS", "ENVCHECK-ANSWERED"
_ASK = f'echo {_BEGIN}; "$@"; status=$?; echo; echo {_END}; exit $status'
_TIMES = 3  # a question is asked whose words came without their end, as a busy engine hands them over now and then
SHOWN = 12  # last lines of a log that a failure quotes


def seconds(default: float) -> float:
    """$ENVCHECK_PROOF_SECONDS, for machines that are slower than any that we know."""
    own = os.environ.get("ENVCHECK_PROOF_SECONDS", "")
    return float(own) if own.isdigit() and int(own) else default


def last_lines(text: str) -> str:
    lines = [line for line in redact(text).splitlines() if line.strip()]
    return "\n".join(f"    {line[:300]}" for line in lines[-SHOWN:])


class Target(Protocol):
    """What the two have in common; paths are those of the target's own side."""

    @property
    def python(self) -> str: ...

    @property
    def own(self) -> str: ...

    @property
    def notes(self) -> Path: ...

    @property
    def settings(self) -> str:
        """Where the variables of its commands are set, as the end of a next step; "" where they are those of ours."""

    def environment(self) -> Environment:
        """What is installed there now."""

    def surroundings(self) -> dict[str, str]:
        """The variables that a command finds there, unless it is given others."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str],
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        """As runner.run, in `own`; `env` is all that the command gets, beside what the container itself sets."""

    def stop(self, argv: Sequence[str]) -> None:
        """End a command that another thread waits for; in a container all of ours."""

    def fresh(self, name: str) -> str:
        """An empty folder of that name in `own`."""

    def write(self, path: str, content: str) -> None: ...

    def read(self, path: str) -> str:
        """The file's beginning, "" where there is none."""

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, sorted; nothing where there is no folder."""

    def bring(self, path: str, to: Path) -> None:
        """Its file, whatever the size, to this host."""

    def put(self, source: Path, path: str) -> None:
        """A file of this host into it; folders on the way are made."""

    def lend(self, source: Path, name: str) -> AbstractContextManager[str]:
        """A file or a folder of this host, for a while, as its commands see it; in the folder `name` of `own` where
        they do not see this host's."""


def answer(target: Target, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> tuple[int, str]:
    """A question's status and what it says, without what a container's start files may say before it.

    StepError where its words do not come whole: no words are an answer, too.
    """
    for _ in range(_TIMES):
        done = target.run(("sh", "-c", _ASK, "sh", *argv), timeout_s=timeout_s, env=env)
        said, end, _ = done.out.partition(f"{_BEGIN}\n")[2].rpartition(f"\n{_END}\n")
        if end or done.hung or done.status == process.NOT_FOUND:
            return done.status, said.rstrip("\n")
    raise StepError(f"what {' '.join(argv[:3])} says does not come whole", "repeat the same command")


@dataclass(frozen=True)
class VenvTarget(OnHost):
    """A virtual environment of this host; `lock` is held by its commands too, so that nobody clears it under them."""

    limit = LIMIT
    folder: Path
    lock: int | None = None

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def own(self) -> str:
        return str(self.notes)

    @property
    def notes(self) -> Path:
        return state_file.folder_of(self.folder)

    @property
    def settings(self) -> str:
        return ""

    def environment(self) -> Environment:
        return environment.read(self.folder)

    def surroundings(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**os.environ, "PATH": path, "VIRTUAL_ENV": str(self.folder)}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str],
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        self.notes.mkdir(parents=True, exist_ok=True)
        held = () if self.lock is None else (self.lock,)
        return process.run(argv, timeout_s=timeout_s, env=env, cwd=self.notes, on_line=on_line, pass_fds=held)

    def fresh(self, name: str) -> str:
        return emptied(self.notes / name)

    def bring(self, path: str, to: Path) -> None:
        shutil.copyfile(path, to)

    def put(self, source: Path, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)

    def lend(self, source: Path, name: str) -> AbstractContextManager[str]:
        return contextlib.nullcontext(str(source))

"""The interface to the place where a recipe's Python runs: a virtual environment on this host, or a container.

A target has a folder of its own (`own_folder`), and one on this host for what must outlive it (`notes_folder`: journal,
logs, lock).
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
from envcheck.core.local_files import LocalFiles, recreate_folder
from envcheck.core.messages import _
from envcheck.core.portable.exit_status import NOT_FOUND
from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact_text
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.state import environment, state_file
from installers.state.environment import Environment

LIMIT = 1 << 20  # bytes that are read of a file
_BEGIN, _END = "ENVCHECK-ANSWERS", "ENVCHECK-ANSWERED"
_ASK = f'echo {_BEGIN}; "$@"; status=$?; echo; echo {_END}; exit $status'
_TIMES = 3  # attempts to read a complete answer: a busy engine sometimes loses output
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")  # the variable of the active environment: of venv and uv, of conda
SHOWN = 12  # lines of a log that an error quotes


def proof_timeout_s(default: float) -> float:
    """Return the timeout in seconds: $ENVCHECK_PROOF_SECONDS, for very slow machines, or `default`."""
    own = os.environ.get("ENVCHECK_PROOF_SECONDS", "")
    return float(own) if own.isdigit() and int(own) else default


def last_lines(text: str) -> str:
    """Return the last lines of a log, indented and without secrets, to be quoted in an error."""
    lines = [line for line in redact_text(text).splitlines() if line.strip()]
    return "\n".join(f"    {line[:300]}" for line in lines[-SHOWN:])


class Target(Protocol):
    """Where commands run; paths are those inside the target."""

    @property
    def python(self) -> str: ...

    @property
    def site(self) -> SiteAccess:
        """Return how this site reaches the outside."""

    @property
    def own_folder(self) -> str: ...

    @property
    def notes_folder(self) -> Path: ...

    @property
    def settings_hint(self) -> str:
        """Return where to set the target's environment variables, to append to a next step; "" for this process's."""

    def read_environment(self) -> Environment:
        """Return what is installed there now."""

    def list_variables(self) -> dict[str, str]:
        """Return the environment variables of a command, unless it is given others."""

    def run_command(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str],
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        """Run a command in `own_folder`, as process.run_command; it gets `env` and what the container itself sets."""

    def stop_command(self, argv: Sequence[str]) -> None:
        """End a command that another thread waits for; in a container, all commands of envcheck."""

    def make_empty_folder(self, name: str) -> str:
        """Create or empty a folder of that name in `own_folder`; return its path."""

    def write_file(self, path: str, content: str) -> None: ...

    def read_file(self, path: str) -> str:
        """Return the first LIMIT bytes of a file, "" if there is none."""

    def list_folder(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; [] if there is no folder."""

    def copy_out(self, path: str, to: Path) -> None:
        """Copy a file of any size to this host."""

    def copy_in(self, source: Path, path: str) -> None:
        """Copy a file of this host into the target; missing folders are created."""

    def lend_path(self, source: Path, name: str) -> AbstractContextManager[str]:
        """Make a file or folder of this host available to commands and yield its path for them.

        A container gets a temporary copy in the folder `name` of `own_folder`.
        """


def read_answer(target: Target, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> tuple[int, str]:
    """Return exit status and standard output of a command, without output of the container's start files.

    Raises StepError if the output is incomplete; empty output is valid.
    """
    for _unused in range(_TIMES):
        done = target.run_command(("sh", "-c", _ASK, "sh", *argv), timeout_s=timeout_s, env=env)
        output, end, _rest = done.out.partition(f"{_BEGIN}\n")[2].rpartition(f"\n{_END}\n")
        if end or done.hung or done.status == NOT_FOUND:
            return done.status, output.rstrip("\n")
    raise StepError(_("incomplete output of {command}", command=" ".join(argv[:3])), _("run the same command again"))


@dataclass(frozen=True)
class VenvTarget(LocalFiles):
    """A virtual environment on this host; commands inherit the `lock` (a descriptor), so no other run changes it."""

    limit = LIMIT
    folder: Path
    lock: int | None = None
    site: SiteAccess = NO_SITE

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def own_folder(self) -> str:
        return str(self.notes_folder)

    @property
    def notes_folder(self) -> Path:
        return state_file.state_folder(self.folder)

    @property
    def settings_hint(self) -> str:
        return ""

    def read_environment(self) -> Environment:
        return environment.read_environment(self.folder)

    def list_variables(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        ours = site_access.list_variables(self.site)
        inherited = {name: value for name, value in os.environ.items() if name not in ACTIVE}
        active = ACTIVE[environment.is_conda(self.folder)]
        return {**inherited, **ours, "PATH": path, active: str(self.folder)}

    def run_command(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str],
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        self.notes_folder.mkdir(parents=True, exist_ok=True)
        held = () if self.lock is None else (self.lock,)
        return process.run_command(
            argv, timeout_s=timeout_s, env=env, cwd=self.notes_folder, on_line=on_line, pass_fds=held
        )

    def make_empty_folder(self, name: str) -> str:
        return recreate_folder(self.notes_folder / name)

    def copy_out(self, path: str, to: Path) -> None:
        shutil.copyfile(path, to)

    def copy_in(self, source: Path, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)

    def lend_path(self, source: Path, name: str) -> AbstractContextManager[str]:
        return contextlib.nullcontext(str(source))

"""Run a command on a simulated machine, whose folder exists as long as the command runs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from envcheck.collect.answer_sources import NO_ENGINE, PROVISIONED
from envcheck.collect.host.answers import SYSROOT
from envcheck.core import language, process
from envcheck.core.errors import EnvcheckError, UsageError, describe_os_error
from envcheck.core.messages import Message, _
from envcheck.core.portable.exit_status import NOT_FOUND, NOT_STARTED
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.simulate.build import write_simulation

OWN_NAME = "envcheck"


@contextmanager
def write_machine_folder(machine: SimulatedSystem, keep: Path | None) -> Iterator[Path]:
    """Yield the machine's folder; `keep` is preserved, a temporary folder is always deleted."""
    folder = _make_fresh_folder(keep) if keep else _make_temporary_folder()
    try:
        _build_folder(machine, folder)
        yield folder
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def note_recipes(folder: Path, names: Sequence[str]) -> None:
    """Mark recipes as provisioned on the machine in this folder."""
    if names:
        (folder / PROVISIONED).write_text("\n".join(names), encoding="utf-8")


def _build_folder(machine: SimulatedSystem, folder: Path) -> None:
    try:
        write_simulation(machine, folder, time.time())
    except OSError as err:
        raise _make_unwritable_error(Path(err.filename or folder), err) from None


def _make_temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="envcheck-simulated-"))
    except OSError as err:
        raise _make_unwritable_error(Path(err.filename or tempfile.gettempdir()), err) from None


def _make_unwritable_error(path: Path, err: OSError) -> UsageError:
    why = describe_os_error(err)
    return UsageError(
        _("cannot write {path}: {why}", path=path, why=why),
        _("set TMPDIR to a directory you can write, or specify one with --keep"),
    )


def make_environment(folder: Path) -> dict[str, str]:
    """Return the caller's environment and language, with the simulated tools first on PATH, and envcheck on it."""
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath), own])
    engine = f"unix://{folder / NO_ENGINE}"  # keep other Docker clients from the real engine
    own_values = {
        "PATH": path,
        SYSROOT: str(folder),
        "DOCKER_HOST": engine,
        language.VARIABLE: language.current_language(),
    }
    return {**os.environ, **own_values}


def run_command(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Return the command's exit status.  CannotStartError with status 127 or 126, as in a shell, if it cannot start."""
    hint = _("put the command after --, as you would type it")
    found = shutil.which(command[0], path=env["PATH"])
    if found is None and command[0] == OWN_NAME:  # a single file, or a clone: not installed, but it runs
        found, command = sys.executable, [sys.executable, "-m", OWN_NAME, *command[1:]]
        env = {**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if found is None:
        raise CannotStartError(_("{command}: not found", command=command[0]), hint, NOT_FOUND)
    try:
        return process.run_in_foreground([found, *command[1:]], env=env)
    except OSError as err:
        raise CannotStartError(
            _("{command}: {strerror}", command=command[0], strerror=describe_os_error(err)),
            hint,
            NOT_STARTED,
        ) from None


class CannotStartError(EnvcheckError):
    """The command cannot be started; `code` is a shell's exit status for that."""

    def __init__(self, message: Message, next_step: Message, code: int) -> None:
        super().__init__(message, next_step)
        self.code = code


def _make_fresh_folder(folder: Path) -> Path:
    """Return an empty folder of that name; existing content is never overwritten."""
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            _("{folder}: exists and is not empty", folder=folder), _("specify a new directory with --keep")
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise _make_unwritable_error(folder, err) from None
    return folder

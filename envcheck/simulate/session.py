"""A command run on a simulated machine, and the folder that lives as long as it does."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from envcheck.collect.host.answers import SYSROOT
from envcheck.core import process
from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.simulate.machine import Machine
from envcheck.simulate.build import build

NOT_EXECUTABLE = 126  # as in a shell


@contextmanager
def written(machine: Machine, keep: Path | None) -> Iterator[Path]:
    """The folder: `keep` stays, one of our own is removed however this ends."""
    folder = _fresh(keep) if keep else _temporary()
    try:
        _write(machine, folder)
        yield folder
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _write(machine: Machine, folder: Path) -> None:
    try:
        build(machine, folder, time.time())
    except OSError as err:
        raise _unwritable(Path(err.filename or folder), err) from None


def _temporary() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="envcheck-simulated-"))
    except OSError as err:
        raise _unwritable(Path(err.filename or tempfile.gettempdir()), err) from None


def _unwritable(path: Path, err: OSError) -> UsageError:
    why = (err.strerror or str(err)).lower()
    return UsageError(f"{path}: cannot be written: {why}", "set TMPDIR to a folder of yours, or give --keep one")


def environment(folder: Path) -> dict[str, str]:
    """Ours, with the simulated tools before all others, and envcheck itself within reach."""
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath), own])
    engine = f"unix://{folder / 'no-engine.sock'}"  # a program with its own Docker client must not reach the real one
    return {**os.environ, "PATH": path, SYSROOT: str(folder), "DOCKER_HOST": engine}


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Its exit status; 127 or 126 and a sentence when it cannot start, as in a shell."""
    hint = "give the command after --, as you would type it"
    found = shutil.which(command[0], path=env["PATH"])
    if found is None:
        raise CannotStartError(f"{command[0]}: not found", hint, process.NOT_FOUND)
    try:
        return process.foreground([found, *command[1:]], env=env)
    except OSError as err:
        raise CannotStartError(f"{command[0]}: {(err.strerror or str(err)).lower()}", hint, NOT_EXECUTABLE) from None


class CannotStartError(EnvcheckError):
    """The command itself cannot be started: the shell's own exit status for that."""

    def __init__(self, message: str, next_step: str, code: int) -> None:
        super().__init__(message, next_step)
        self.code = code


def _fresh(folder: Path) -> Path:
    """An empty folder of that name; what stands there is nobody's to overwrite."""
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there and not empty", "give --keep a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise _unwritable(folder, err) from None
    return folder

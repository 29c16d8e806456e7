"""One provisioning at a time in one environment.

The lock is the kernel's (flock), so that a killed run leaves none behind.  Children that write into the environment
inherit it: after a SIGKILL of envcheck its pip lives on for a moment, and nobody may clear the folder under it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from envcheck.core.errors import EnvcheckError
from installers.state import state_file

ORPHAN_PATIENCE_S = 120.0  # a pip whose envcheck was killed: the unpacking of paddle takes up to half a minute


@contextlib.contextmanager
def held(environment: Path, say: Callable[[str], None]) -> Iterator[int]:
    """The lock's file descriptor, for children; EnvcheckError when a living run holds it."""
    folder = state_file.folder_of(environment)
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(file, environment, say)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield file
    finally:
        os.close(file)


def _take(file: int, environment: Path, say: Callable[[str], None]) -> None:
    patience = time.monotonic() + ORPHAN_PATIENCE_S
    told = False
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip()
        if _alive(holder):
            raise EnvcheckError(
                f"another envcheck (process {holder}) is working in {environment}",
                "wait until it has ended, then repeat",
            )
        if time.monotonic() > patience:
            raise EnvcheckError(
                f"a process that an interrupted run left behind still works in {environment}",
                f"see who it is: fuser -v {state_file.folder_of(environment) / 'lock'}",
            )
        if not told:
            say("waiting for the pip of an interrupted run to end")
            told = True
        time.sleep(0.3)


def _alive(pid: str) -> bool:
    """An unreadable holder counts as alive: it took the lock this moment and has not written its name yet."""
    if not pid.isdigit():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"  # a killed process that nobody has reaped yet holds nothing

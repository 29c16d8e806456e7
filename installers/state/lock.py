"""The lock of an environment: one provisioning at a time.

It is a kernel lock (flock), so a killed run leaves none behind.  Child processes that write into the environment
inherit it: after a SIGKILL of envcheck its pip still runs for a while, and no other run may clear the folder then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from envcheck.core.errors import EnvcheckError
from envcheck.core.messages import _
from installers.state import state_file

ORPHAN_PATIENCE_S = 120.0  # wait for the pip of a killed envcheck: unpacking paddle takes up to 30 s


@contextlib.contextmanager
def hold_lock(environment: Path, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock and yield its descriptor, for child processes; raise EnvcheckError if another run holds it.

    `say` is called with a message when it has to wait for a process of an interrupted run.
    """
    folder = state_file.state_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire_lock(file, environment, say)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield file
    finally:
        os.close(file)


def _acquire_lock(file: int, environment: Path, say: Callable[[str], None]) -> None:
    patience = time.monotonic() + ORPHAN_PATIENCE_S
    reported = False
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip()
        if _is_alive(holder):
            raise EnvcheckError(
                _(
                    "another envcheck process ({pid}) is working in {environment}",
                    pid=holder,
                    environment=environment,
                ),
                _("wait until it has finished, then run the command again"),
            )
        if time.monotonic() > patience:
            raise EnvcheckError(
                _(
                    "a process of an interrupted run is still working in {environment}",
                    environment=environment,
                ),
                _("find the process with `fuser -v {lock}`", lock=state_file.state_folder(environment) / "lock"),
            )
        if not reported:
            say(_("waiting for the pip of an interrupted run to end"))
            reported = True
        time.sleep(0.3)


def _is_alive(pid: str) -> bool:
    """Return whether the process runs; an unreadable pid counts as running, as it may not be written yet."""
    if not pid.isdigit():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"  # a zombie holds no lock

"""Start the launcher of a training on this host and keep its exit status, also if the supervisor is killed.

Runs as `launcher_shim.py` (standard library only) with a job as one line of JSON on standard input: {"argv",
"environment", "workdir", "status_file"}.  Standard error becomes the output of the launcher.  Events on standard
output, one JSON document per line:

    {"began": pid}, or {"unstarted": program, "reason": text}
    {"end": status}   exit status of the launcher, negative for a signal; also in the status file

After the last event it waits until the supervisor closes its end of standard input.  Processes that leave their parents
(double forks) become its children, so that they are found below it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.5
ROOM = 64  # bytes of the status file, written at the start: a full disk must not lose the status


def print_event(**words: object) -> None:
    """Print an event; nobody reads it if the supervisor was killed."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(words).encode() + b"\n")


def adopt_descendants() -> None:
    """Become the parent of all descendants that lose their own."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def read_job() -> dict[str, Any]:
    """Return the job, read without buffering: later input is a signal to exit."""
    text = b""
    while not text.endswith(b"\n") and (more := os.read(0, 1 << 16)):
        text += more
    job: dict[str, Any] = json.loads(text)
    return job


def open_status_file(path: str) -> int:
    """Create the file and reserve its space; -1 if that fails."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(file, b" " * ROOM)
        os.fsync(file)
    except OSError:
        return -1
    return file


def wait_for_launcher(pid: int) -> int:
    """Reap all children until the launcher has ended; return its exit status."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def wait_for_release() -> None:
    """Wait for the end of the input, and reap children meanwhile."""
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if select.select([0], [], [], LOOK_S)[0] and not os.read(0, 4096):
            return


def main() -> None:
    """Run the job."""
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(sign, lambda number, _frame: None)  # a handler, unlike SIG_IGN, is not inherited by the launcher
    job = read_job()
    adopt_descendants()
    status_file = open_status_file(job["status_file"])
    try:
        child = subprocess.Popen(
            job["argv"], env=job["environment"], cwd=job["workdir"], stdin=subprocess.DEVNULL, stdout=2, stderr=2
        )
    except OSError as err:
        print_event(unstarted=str(err.filename or job["argv"][0]), reason=err.strerror or str(err))
        return
    print_event(began=child.pid)
    child.returncode = status = wait_for_launcher(child.pid)
    with contextlib.suppress(OSError):
        os.pwrite(status_file, json.dumps({"status": status}).encode(), 0)
        os.fsync(status_file)
    print_event(end=status)
    wait_for_release()


if __name__ == "__main__":
    main()

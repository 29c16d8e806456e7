"""Running a program on a host that the collector travelled to; here, envcheck.core.process does."""

import os
import select
import signal
import subprocess
import time
from typing import NamedTuple

OUTPUT_LIMIT = 4 << 20  # bytes of each stream kept: what a snapshot takes
NOT_FOUND, NOT_STARTED, HUNG = 127, 126, 124
_running = set()  # type: set[subprocess.Popen[bytes]]


class CommandOutput(NamedTuple):
    """As envcheck.core.process.CommandResult."""

    status: int
    out: str
    err: str
    elapsed_s: float = 0.0
    absent: bool = False
    hung: bool = False


def run(argv: "list[str]", timeout_s: float) -> CommandOutput:
    """To its end, or to the deadline, at which it and its children are ended."""
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env=dict(os.environ, LC_ALL="C.UTF-8"),
        )  # fmt: skip
    except OSError as err:
        absent = isinstance(err, FileNotFoundError)
        why = "not found" if absent else (err.strerror or str(err)).lower()
        return CommandOutput(NOT_FOUND if absent else NOT_STARTED, "", f"{argv[0]}: {why}", absent=absent)
    _running.add(child)
    try:
        out, err_text, over = _read(child, began + timeout_s)
        hung = not over or not _ended(child, began + timeout_s)
        if hung:
            _kill(child)
    finally:
        _running.discard(child)
    return CommandOutput(HUNG if hung else child.returncode, out, err_text, time.monotonic() - began, hung=hung)


def end_all() -> None:
    """Ends what `run` has started in any thread."""
    for child in list(_running):
        _kill(child)


def _read(child: "subprocess.Popen[bytes]", deadline: float) -> "tuple[str, str, bool]":
    """Both streams, and whether they came to their end before the deadline."""
    kept = {stream.fileno(): bytearray() for stream in (child.stdout, child.stderr) if stream}
    streams, ready = list(kept), select.poll()
    for number in streams:
        ready.register(number, select.POLLIN)
    left = len(streams)
    while left and time.monotonic() < deadline:
        for number, _ in ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            chunk = os.read(number, 1 << 16)
            if not chunk:
                ready.unregister(number)
                left -= 1
            kept[number] += chunk[: max(0, OUTPUT_LIMIT - len(kept[number]))]
    for stream in (child.stdout, child.stderr):
        if stream:
            stream.close()
    out, err = (bytes(kept[number]).decode("utf-8", "replace") for number in streams)
    return out, err, not left


def _ended(child: "subprocess.Popen[bytes]", deadline: float) -> bool:
    """Looks ever less often; Popen.wait with a timeout raises where a clock is stepped meanwhile."""
    deadline, pause_s = max(deadline, time.monotonic() + 0.1), 0.0005
    while child.poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return True


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """The whole group; a process in state D is left to the kernel."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        return
    _ended(child, time.monotonic() + 1.0)

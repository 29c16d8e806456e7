"""Runs programs on hosts that the collector was sent to; on this host, envcheck.core.process does."""

import os
import select
import signal
import subprocess
import time
from typing import NamedTuple

OUTPUT_LIMIT = 4 << 20  # bytes of each stream that are kept, as in a snapshot
NOT_FOUND, NOT_STARTED, HUNG = 127, 126, 124
_running = set()  # type: set[subprocess.Popen[bytes]]


class CommandOutput(NamedTuple):
    """The same fields as envcheck.core.process.CommandResult."""

    status: int
    out: str
    err: str
    elapsed_s: float = 0.0
    absent: bool = False
    hung: bool = False


def run_command(argv: "list[str]", timeout_s: float) -> CommandOutput:
    """Run a program until it ends; at the deadline, kill it and its children."""
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
        out, err_text, over = _read_streams(child, began + timeout_s)
        hung = not over or not _wait_for_end(child, began + timeout_s)
        if hung:
            _kill_group(child)
    finally:
        _running.discard(child)
    return CommandOutput(HUNG if hung else child.returncode, out, err_text, time.monotonic() - began, hung=hung)


def kill_all() -> None:
    """Kill all programs that `run_command` started in any thread."""
    for child in list(_running):
        _kill_group(child)


def _read_streams(child: "subprocess.Popen[bytes]", deadline: float) -> "tuple[str, str, bool]":
    """Return both streams, and whether they ended before the deadline."""
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


def _wait_for_end(child: "subprocess.Popen[bytes]", deadline: float) -> bool:
    """Poll at growing intervals; Popen.wait with a timeout raises if the clock is stepped."""
    deadline, pause_s = max(deadline, time.monotonic() + 0.1), 0.0005
    while child.poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return True


def _kill_group(child: "subprocess.Popen[bytes]") -> None:
    """Kill the whole group; a process in state D remains until the kernel ends it."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        return
    _wait_for_end(child, time.monotonic() + 1.0)

"""Runs programs on hosts that the collector was sent to; on this host, envcheck.core.process does."""

import os
import select
import signal
import subprocess
import time
from typing import NamedTuple

from envcheck.core.portable.exit_status import HUNG, NOT_FOUND, NOT_STARTED, TOO_MUCH, describe_too_much
from envcheck.core.portable.start_failure import describe_start_failure

OUTPUT_LIMIT = 4 << 20  # bytes of each stream that are kept, as in a snapshot
LINGER_S = 0.5  # how long output is awaited after the program ended, if a child of it holds its streams
_running = set()  # type: set[subprocess.Popen[bytes]]


class CommandOutput(NamedTuple):
    """The same fields as envcheck.core.process.CommandResult."""

    status: int
    out: str
    err: str
    elapsed_s: float = 0.0
    absent: bool = False
    hung: bool = False
    unstarted: bool = False
    flooded: bool = False


def run_command(argv: "list[str]", timeout_s: float) -> CommandOutput:
    """Run a program until it ends; at the deadline, kill it and its children."""
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env=dict(os.environ, LC_ALL="C.UTF-8"),
        )  # fmt: skip
    except OSError as err:
        why = describe_start_failure(argv[0], err, os.environ.get("PATH", ""))
        words = f"{argv[0]}: {why or 'not found'}"
        return CommandOutput(NOT_STARTED if why else NOT_FOUND, "", words, absent=not why, unstarted=bool(why))
    _running.add(child)
    try:
        out, err_text, over = _read_streams(child, began + timeout_s)
        too_much = max(len(out), len(err_text)) > OUTPUT_LIMIT
        hung = not too_much and (not over or not _wait_for_end(child, began + timeout_s))
        if hung or too_much:
            _kill_group(child)
    finally:
        _running.discard(child)
    if too_much:
        err_text = describe_too_much(OUTPUT_LIMIT) + err_text[:OUTPUT_LIMIT]
        return CommandOutput(TOO_MUCH, out[:OUTPUT_LIMIT], err_text, time.monotonic() - began, flooded=True)
    return CommandOutput(HUNG if hung else child.returncode, out, err_text, time.monotonic() - began, hung=hung)


def kill_all() -> None:
    """Kill all programs that `run_command` started in any thread."""
    for child in list(_running):
        _kill_group(child)


def _read_streams(child: "subprocess.Popen[bytes]", deadline: float) -> "tuple[str, str, bool]":
    """Return both streams, and whether they, or the program, ended before the deadline.

    Reading ends when a stream is longer than OUTPUT_LIMIT, and when the program has ended but a child holds a stream.
    """
    kept = {stream.fileno(): bytearray() for stream in (child.stdout, child.stderr) if stream}
    streams, ready = list(kept), select.poll()
    for number in streams:
        ready.register(number, select.POLLIN)
    left, ended_at = len(streams), 0.0
    while left and time.monotonic() < deadline and max(map(len, kept.values())) <= OUTPUT_LIMIT:
        events = ready.poll(min(LINGER_S, max(0.0, deadline - time.monotonic())) * 1000)
        if not ended_at and child.poll() is not None:
            ended_at = time.monotonic()
        if ended_at and not events and time.monotonic() - ended_at >= LINGER_S:
            left = 0
        for number, _ in events:
            chunk = os.read(number, 1 << 16)
            if not chunk:
                ready.unregister(number)
                left -= 1
            kept[number] += chunk[: max(0, OUTPUT_LIMIT + 1 - len(kept[number]))]
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

"""The only door to sub-processes: argument lists, a deadline, bounded output; a missing program is an answer."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_LIMIT = 16 << 20  # bytes of each stream kept; the largest real answer (nvidia-smi -q -x, 16 MIG cards) is 1 MB
NOT_FOUND, HUNG = 127, 124  # the shell's and timeout(1)'s own words


@dataclass(frozen=True)
class CommandResult:
    """How a command ended.  `status` is 127 when the program is missing, 124 when the deadline ended it."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str
    elapsed_s: float = 0.0
    absent: bool = False
    hung: bool = False


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    pass_fds: Sequence[int] = (),
) -> CommandResult:
    """Run to the end or to the deadline, whichever is first; `on_line` sees each line of both streams as it comes.

    `pass_fds` stay open in the child: a lock that it must go on holding when envcheck is killed.
    """
    began = time.monotonic()
    try:
        child = start(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=pass_fds)
    except OSError as err:
        absent = isinstance(err, FileNotFoundError)
        return CommandResult(tuple(argv), NOT_FOUND if absent else 126, "", f"{argv[0]}: {_why(err)}", absent=absent)
    try:
        streams, hung = _collect(child, began + timeout_s, on_line)
    except BaseException:  # Ctrl-C included: no child outlives us
        end(child)
        raise
    if hung:
        end(child)
    status = HUNG if hung else child.wait()
    return CommandResult(tuple(argv), status, streams[0], streams[1], time.monotonic() - began, hung=hung)


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """A process in a group of its own, so that `end` reaches its children.  Raises OSError when it cannot start."""
    return subprocess.Popen(
        list(argv),
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )


def foreground(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> int:
    """A command on our own terminal; its exit status as a shell gives it, 128 and the signal's number for a killed one.

    Signals that somebody sends to us alone are passed on.  Ctrl-C on a terminal reaches the child without us, as it is
    in our process group, and is not sent twice.  Raises OSError when it cannot start.
    """
    passed = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child = subprocess.Popen(list(argv), env=env)
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, passed | {signal.SIGCHLD})
        while child.poll() is None:
            told = signal.sigtimedwait(passed | {signal.SIGCHLD}, 1.0)
            if (
                told and told.si_signo in passed and told.si_code <= 0
            ):  # from a process; the terminal's are the kernel's
                child.send_signal(told.si_signo)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end(child: subprocess.Popen[bytes], grace_s: float = 5.0) -> None:
    """SIGTERM to the whole group, then SIGKILL to what is left of it."""
    for sign, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, sign)
        except (ProcessLookupError, PermissionError):  # gone, or another user's by now (sudo)
            break
        _wait_for_group(child, patience)
    for stream in (child.stdout, child.stderr):
        if stream:
            stream.close()


def _wait_for_group(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """Until nobody of the group is left, or patience ends; the leader is reaped on the way."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        child.poll()
        try:
            os.killpg(child.pid, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.01)


def _collect(
    child: subprocess.Popen[bytes], deadline: float, on_line: Callable[[str], None] | None
) -> tuple[list[str], bool]:
    kept = [bytearray(), bytearray()]
    partial = [b"", b""]
    with selectors.DefaultSelector() as ready:
        for which, stream in enumerate((child.stdout, child.stderr)):
            assert stream is not None
            ready.register(stream, selectors.EVENT_READ, which)
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return [k.decode("utf-8", "replace") for k in kept], True
            for event, _ in ready.select(left):
                chunk = os.read(event.fd, 1 << 16)
                if not chunk:
                    ready.unregister(event.fileobj)
                    continue
                kept[event.data] += chunk[: max(0, OUTPUT_LIMIT - len(kept[event.data]))]
                if on_line:
                    *lines, partial[event.data] = (partial[event.data] + chunk).split(b"\n")
                    for line in lines:
                        on_line(line.decode("utf-8", "replace"))
    for stream in (child.stdout, child.stderr):
        if stream:
            stream.close()
    try:
        child.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return [k.decode("utf-8", "replace") for k in kept], True
    return [k.decode("utf-8", "replace") for k in kept], False


def _why(err: OSError) -> str:
    return "not found" if isinstance(err, FileNotFoundError) else (err.strerror or str(err)).lower()

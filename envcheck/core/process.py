"""Runs all subprocesses: argument lists, a deadline, bounded output.  A missing program is a result, not an
exception."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.portable.exit_status import HUNG, NOT_FOUND, NOT_STARTED, TOO_MUCH, describe_too_much
from envcheck.core.portable.start_failure import describe_start_failure

if TYPE_CHECKING:
    from envcheck.core.terminal import Terminal

OUTPUT_LIMIT = 16 << 20  # bytes of each stream kept; the largest real answer (nvidia-smi -q -x, 16 MIG cards) is 1 MB
LINGER_S = 0.5  # how long output is awaited after the command ended, if a child of it holds its streams
START_S = 0.05  # ten times as long as it takes to start a process
_running: set[subprocess.Popen[bytes]] = set()  # children that `run_command` waits for, in any thread
_over = threading.Event()
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. `status` is 127 if the program is missing, 124 if it exceeded the deadline."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str
    elapsed_s: float = 0.0
    absent: bool = False
    hung: bool = False
    unstarted: bool = False
    flooded: bool = False


def run_command(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: OnLine | None = None,
    pass_fds: Sequence[int] = (),
    output_limit: int | None = None,
) -> CommandResult:
    """Run a command until it ends or the deadline expires; `on_line` receives each line of both streams as it
    arrives.  A command that prints more than `output_limit` characters is stopped; None keeps OUTPUT_LIMIT bytes.

    A command that ends while a child of it holds its streams has ended.

    `pass_fds` stay open in the child, such as a lock that must be kept if envcheck is killed.
    """
    began = time.monotonic()
    try:
        child = _start_child(argv, env, cwd, pass_fds)
    except OSError as err:
        why = describe_start_failure(argv[0], err, (env or os.environ).get("PATH", ""))
        absent = not why
        words = f"{argv[0]}: {why or 'not found'}"
        status = NOT_FOUND if absent else NOT_STARTED
        return CommandResult(tuple(argv), status, "", words, absent=absent, unstarted=not absent)
    try:
        streams, hung = _collect_output(child, began + timeout_s, on_line, output_limit)
        cut = output_limit is not None and any(len(stream) > output_limit for stream in streams)
        if hung or cut:
            terminate_group(child)
    except BaseException:  # also on Ctrl-C: no child may outlive envcheck
        terminate_group(child)
        raise
    finally:
        _running.discard(child)
    status = HUNG if hung and not cut else child.wait()
    if cut:
        streams = [stream[:output_limit] for stream in streams]
        streams[1] = describe_too_much(output_limit or 0) + streams[1]
        status, hung = TOO_MUCH, False
    return CommandResult(tuple(argv), status, streams[0], streams[1], time.monotonic() - began, hung=hung, flooded=cut)


@contextlib.contextmanager
def terminate_children_on_error() -> Iterator[None]:
    """If the body ends early, by Ctrl-C, SIGTERM or an error, terminate the commands that other threads are running."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _exit_on_sigterm) if main else None
    try:
        yield
    except BaseException:
        if main:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second Ctrl-C must not stop the cleanup
        terminate_all()
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def terminate_all(grace_s: float = 1.0) -> None:
    """Terminate all commands that `run_command` started in any thread, and let it start no more: this process will
    exit."""
    _over.set()
    time.sleep(START_S)  # threads that were about to start a child have started it
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for child in list(_running):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, sign)
        deadline = time.monotonic() + grace_s
        while _running and time.monotonic() < deadline:  # their threads reap them
            time.sleep(0.01)


def kill_running() -> None:
    """Kill the commands that `run_command` runs in other threads; it may start others afterwards."""
    for child in list(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def terminate_matching(argv: Sequence[str]) -> None:
    """Kill a command that `run_command` runs in another thread, found by its program's base name and its arguments."""
    wanted = (Path(argv[0]).name, *argv[1:])
    for child in list(_running):
        words = [str(word) for word in child.args] if isinstance(child.args, (list, tuple)) else []
        if words and (Path(words[0]).name, *words[1:]) == wanted:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)


def _exit_on_sigterm(*_unused: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _start_child(
    argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    if _over.is_set():
        raise KeyboardInterrupt
    child = start_process(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=pass_fds)
    _running.add(child)
    return child


def start_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in its own session and group, so that `terminate_group` reaches its children. Raises OSError."""
    return subprocess.Popen(
        list(argv),
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )


def run_in_foreground(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Run a command on envcheck's own terminal, and return its exit status as a shell does: 128 + signal number if it
    was killed.

    Signals sent only to envcheck are forwarded.  Ctrl-C on the terminal reaches the child directly, because it is in
    the same process group, and is not sent twice.  Raises OSError if the command cannot start.
    """
    passed = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed | {signal.SIGCHLD})  # one may arrive during the start
    try:
        child = subprocess.Popen(
            list(argv), env=env, cwd=cwd, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
        )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    try:
        while child.poll() is None:
            received = signal.sigtimedwait(passed | {signal.SIGCHLD}, 1.0)
            # si_code > 0 is a signal of the kernel: the terminal's Ctrl-C, which the child receives itself.
            if received and received.si_signo in passed and received.si_code <= 0:
                child.send_signal(received.si_signo)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def open_terminal(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    columns: int | None = None,
) -> contextlib.AbstractContextManager[Terminal]:
    """Run a command on its own pseudo-terminal, for interactive use; its session is terminated at the end of the
    `with`.

    Lines up to `columns` characters are not wrapped.
    """
    from envcheck.core import terminal  # imports pexpect, which only interactive commands need

    return terminal.open_session(argv, env, cwd, columns or terminal.COLUMNS)


def terminate_group(child: subprocess.Popen[bytes], grace_s: float = 5.0) -> None:
    """Send SIGTERM to the whole process group, then SIGKILL to the remaining processes."""
    for sign, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, sign)
        except (ProcessLookupError, PermissionError):  # ended, or now owned by another user (sudo)
            break
        _wait_for_group(child, patience)
    for stream in (child.stdout, child.stderr):
        if stream:
            stream.close()


def _wait_for_group(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait until the group is empty or the time is over; reaps the leader."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        child.poll()
        try:
            os.killpg(child.pid, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.01)


def _collect_output(
    child: subprocess.Popen[bytes], deadline: float, on_line: OnLine | None, limit: int | None = None
) -> tuple[list[str], bool]:
    assert child.stdout is not None and child.stderr is not None
    kept, partial = [bytearray(), bytearray()], [b"", b""]
    open_streams, ready = {child.stdout.fileno(): 0, child.stderr.fileno(): 1}, select.poll()
    for fd in open_streams:
        ready.register(fd, select.POLLIN)
    ended_at: float | None = None
    while open_streams and (left := deadline - time.monotonic()) > 0:
        events = ready.poll(min(left, LINGER_S) * 1000)
        if ended_at is None and child.poll() is not None:
            ended_at = time.monotonic()
        if ended_at is not None and not events and time.monotonic() - ended_at >= LINGER_S:
            break
        if limit is not None and max(map(len, kept)) > limit:
            return [k.decode("utf-8", "replace") for k in kept], True
        for fd, _unused in events:
            chunk, which = os.read(fd, 1 << 16), open_streams[fd]
            if not chunk:
                ready.unregister(fd)
                del open_streams[fd]
                continue
            kept[which] += chunk[: max(0, OUTPUT_LIMIT - len(kept[which]))]
            if on_line:
                *lines, partial[which] = (partial[which] + chunk).split(b"\n")
                for line in lines:
                    on_line(line.decode("utf-8", "replace"))
    hung = (bool(open_streams) and child.poll() is None) or not _wait_for_end(child, deadline)
    child.stdout.close()
    child.stderr.close()
    return [k.decode("utf-8", "replace") for k in kept], hung


def _wait_for_end(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Return whether the child ends in time.  Popen.wait polls, which costs milliseconds for each of a hundred
    children."""
    if child.poll() is not None:
        return True
    patience_s = max(0.1, deadline - time.monotonic())
    try:
        handle = os.pidfd_open(child.pid)
    except OSError:  # a kernel before 5.3
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience_s)
        return child.returncode is not None
    try:
        ready = select.poll()
        ready.register(handle, select.POLLIN)
        ready.poll(patience_s * 1000)
    finally:
        os.close(handle)
    return child.poll() is not None

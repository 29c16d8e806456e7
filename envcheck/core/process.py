"""The only door to sub-processes: argument lists, a deadline, bounded output; a missing program is an answer."""

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

if TYPE_CHECKING:
    from envcheck.core.terminal import Terminal

OUTPUT_LIMIT = 16 << 20  # bytes of each stream kept; the largest real answer (nvidia-smi -q -x, 16 MIG cards) is 1 MB
NOT_FOUND, HUNG = 127, 124  # the shell's and timeout(1)'s own words
START_S = 0.05  # in which a process is started, tenfold
_running: set[subprocess.Popen[bytes]] = set()  # what `run` waits for, in any thread
_over = threading.Event()
OnLine = Callable[[str], None]


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
    on_line: OnLine | None = None,
    pass_fds: Sequence[int] = (),
) -> CommandResult:
    """Run to the end or to the deadline, whichever is first; `on_line` sees each line of both streams as it comes.

    `pass_fds` stay open in the child: a lock that it must go on holding when envcheck is killed.
    """
    began = time.monotonic()
    try:
        child = _started(argv, env, cwd, pass_fds)
    except OSError as err:
        absent = isinstance(err, FileNotFoundError)
        return CommandResult(tuple(argv), NOT_FOUND if absent else 126, "", f"{argv[0]}: {_why(err)}", absent=absent)
    try:
        streams, hung = _collect(child, began + timeout_s, on_line)
        if hung:
            end(child)
    except BaseException:  # Ctrl-C included: no child outlives us
        end(child)
        raise
    finally:
        _running.discard(child)
    status = HUNG if hung else child.wait()
    return CommandResult(tuple(argv), status, streams[0], streams[1], time.monotonic() - began, hung=hung)


@contextlib.contextmanager
def no_child_left() -> Iterator[None]:
    """However the body ends early, by Ctrl-C, SIGTERM or an error: the commands that other threads run end with us."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminated) if main else None
    try:
        yield
    except BaseException:
        if main:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second Ctrl-C must not stop the tidying
        end_all()
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def end_all(grace_s: float = 1.0) -> None:
    """End what `run` has started in any thread, and let it start nothing more: this process is about to end."""
    _over.set()
    time.sleep(START_S)  # who was about to start one has done so
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for child in list(_running):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, sign)
        deadline = time.monotonic() + grace_s
        while _running and time.monotonic() < deadline:  # their own threads reap them
            time.sleep(0.01)


def end_what_runs(argv: Sequence[str]) -> None:
    """End a command that `run` waits for in another thread; by its name without folders, and its arguments."""
    wanted = (Path(argv[0]).name, *argv[1:])
    for child in list(_running):
        words = [str(word) for word in child.args] if isinstance(child.args, (list, tuple)) else []
        if words and (Path(words[0]).name, *words[1:]) == wanted:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)


def _terminated(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _started(
    argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    if _over.is_set():
        raise KeyboardInterrupt
    child = start(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=pass_fds)
    _running.add(child)
    return child


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


def foreground(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """A command on our own terminal; its exit status as a shell gives it, 128 and the signal's number for a killed one.

    Signals that somebody sends to us alone are passed on.  Ctrl-C on a terminal reaches the child without us, as it is
    in our process group, and is not sent twice.  Raises OSError when it cannot start.
    """
    passed = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed | {signal.SIGCHLD})  # one may come while it starts
    try:
        child = subprocess.Popen(
            list(argv), env=env, cwd=cwd, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
        )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    try:
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


def converse(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    columns: int | None = None,
) -> contextlib.AbstractContextManager[Terminal]:
    """A command on a terminal of its own, for who asks and is answered; nobody of it outlives the `with`.

    With so many `columns` no line that is typed is broken.
    """
    from envcheck.core import terminal  # pexpect: for nobody else's sake

    return terminal.opened(argv, env, cwd, columns or terminal.COLUMNS)


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


def _collect(child: subprocess.Popen[bytes], deadline: float, on_line: OnLine | None) -> tuple[list[str], bool]:
    assert child.stdout is not None and child.stderr is not None
    kept, partial = [bytearray(), bytearray()], [b"", b""]
    open_streams, ready = {child.stdout.fileno(): 0, child.stderr.fileno(): 1}, select.poll()
    for fd in open_streams:
        ready.register(fd, select.POLLIN)
    while open_streams and (left := deadline - time.monotonic()) > 0:
        for fd, _ in ready.poll(left * 1000):
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
    hung = bool(open_streams) or not _ended(child, deadline)
    child.stdout.close()
    child.stderr.close()
    return [k.decode("utf-8", "replace") for k in kept], hung


def _ended(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether it ends in time.  Popen.wait sleeps between looks, some milliseconds for each of a hundred children."""
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


def _why(err: OSError) -> str:
    return "not found" if isinstance(err, FileNotFoundError) else (err.strerror or str(err)).lower()

"""A command on its own pseudo-terminal, for programs that ask questions; `process.open_terminal` starts it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import signal
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pexpect

from envcheck.core.signals import handle_signals

ROWS, COLUMNS = 500, 200  # in 24 x 80 characters a licence text would stop at a pager's --More--
CHUNK = 1 << 16
GRACE_S = 5.0
_TIOCGPTN = 0x80045430  # asm-generic/ioctls.h: get the number of a pseudo-terminal from its master
# System call numbers (asm/unistd_64.h, asm-generic/unistd.h): read, and the calls that wait for several files.
_READ = {"x86_64": 0, "aarch64": 63}
_WAIT = {"x86_64": {7, 23, 232, 270, 271, 281}, "aarch64": {22, 72, 73}}


class Terminal:
    """One child process, the leader of its session.  `read` returns its output, `send` types, `terminate_session` ends
    all processes of the session."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, columns: int = COLUMNS
    ) -> None:
        self._child = pexpect.spawn(
            argv[0],
            list(argv[1:]),
            timeout=None,
            maxread=CHUNK,
            env=dict(env) if env is not None else None,
            cwd=str(cwd) if cwd else None,
            encoding="utf-8",
            codec_errors="replace",
            dimensions=(ROWS, columns),
            preexec_fn=_reset_child_process,
        )
        self._child.delaybeforesend = None
        self.pid = int(self._child.pid or 0)
        self._name = _find_terminal_path(self._child.child_fd)

    def read(self, patience_s: float) -> str | None:
        """Return the output so far, "" for none; None after the end, even if a daemon keeps the terminal open."""
        try:
            return str(self._child.read_nonblocking(CHUNK, patience_s))
        except pexpect.TIMEOUT:
            return "" if self._child.isalive() else None
        except pexpect.EOF:
            return None

    def send(self, text: str) -> None:
        """Type the text; ignored if the child has just ended."""
        with contextlib.suppress(OSError):  # it has just ended, which `read` reports
            self._child.send(text)

    def is_echo_off(self) -> bool:
        """Return whether the echo is off, as at a password prompt."""
        try:
            return not self._child.getecho()
        except OSError:
            return False

    def is_waiting_for_input(self) -> bool | None:
        """Return whether a process of the session is reading the terminal now; None if that cannot be determined."""
        answers = [_is_reading(pid, self._name) for pid in _list_session_pids(self.pid)]
        return True if True in answers else None if None in answers else False

    def interrupt(self) -> None:
        """Type Ctrl-C, and wait up to GRACE_S seconds for the session to end."""
        self.send("\x03")
        deadline = time.monotonic() + GRACE_S
        while _list_session_pids(self.pid) and time.monotonic() < deadline:
            if self.read(0.05) is None:
                break

    def wait_for_status(self) -> int:
        """Wait for the child, and return its exit status as a shell does: 128 + signal number if it was killed."""
        with contextlib.suppress(pexpect.ExceptionPexpect):
            self._child.wait()
        if self._child.signalstatus is not None:
            return 128 + int(self._child.signalstatus)
        return int(self._child.exitstatus or 0)

    def terminate_session(self) -> None:
        """Send SIGTERM and then SIGKILL to the rest of the session; daemons that left the session are not affected."""
        for sign, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            deadline = time.monotonic() + patience_s
            signalled: set[int] = set()
            while (living := self._list_processes()) and time.monotonic() < deadline:
                for pid in living - signalled:  # also those that a shell has started since the last round
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, sign)
                signalled |= living
                self.read(0.02)  # a process that writes to a full terminal would never end
        with contextlib.suppress(OSError, pexpect.ExceptionPexpect):
            self._child.close(force=True)

    def _list_processes(self) -> set[int]:
        with contextlib.suppress(pexpect.ExceptionPexpect):
            self._child.isalive()  # reaps it
        return set(_list_session_pids(self.pid))


@contextlib.contextmanager
def open_session(
    argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, columns: int = COLUMNS
) -> Iterator[Terminal]:
    """Provide the terminal during the body; Ctrl-C goes to the child first, so that it can clean up."""
    terminal = None
    try:
        with _delay_interrupt():
            terminal = Terminal(argv, env, cwd, columns)
        yield terminal
    except KeyboardInterrupt:
        if terminal:
            with handle_signals(_ignore_signal):
                terminal.interrupt()
        raise
    finally:
        if terminal:
            with handle_signals(_ignore_signal):
                terminal.terminate_session()


@contextlib.contextmanager
def _delay_interrupt() -> Iterator[None]:
    """Defer stop signals to the end of the body: a child that is not registered yet could not be terminated."""
    asked: list[int] = []
    with handle_signals(lambda number, frame: asked.append(number)):
        yield
    if asked:
        raise KeyboardInterrupt


def _ignore_signal(number: int, frame: object) -> None:
    """Ignore a second Ctrl-C, which must not stop the cleanup."""


def _reset_child_process() -> None:
    """Set umask 022 and the default signal handlers: files that an installer writes must be readable for all users."""
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _find_terminal_path(master: int) -> str:
    try:
        (number,) = struct.unpack("i", fcntl.ioctl(master, _TIOCGPTN, b"\0" * 4))
    except OSError:
        return ""
    return f"/dev/pts/{number}"


def _list_session_pids(leader: int) -> list[int]:
    """Return the processes of a session: /proc/PID/stat is `pid (name) state ppid pgrp session ...`."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] not in "ZX":
                    found.append(int(path.name))
    return found


def _is_reading(pid: int, terminal: str) -> bool | None:
    """Return whether the process sleeps in read() on the terminal: /proc/PID/syscall is `number 0xARGUMENT ...` or
    `running`."""
    machine = platform.machine()
    try:
        words = Path(f"/proc/{pid}/syscall").read_text().split()
        if machine not in _READ or not terminal:
            return None
        if not words or not re.fullmatch(r"-?\d+", words[0]):
            return False
        if int(words[0]) == _READ[machine]:
            return str(Path(f"/proc/{pid}/fd/{int(words[1], 16)}").readlink()) == terminal
        return None if int(words[0]) in _WAIT[machine] else False
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return None

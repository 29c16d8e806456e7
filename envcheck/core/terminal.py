"""A command on a terminal of its own, for programs that ask; started through `runner.converse`, the one door."""

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

from envcheck.core.signals import heard_by

ROWS, COLUMNS = 500, 200  # at 24 x 80 a licence stops at a pager's --More--
CHUNK = 1 << 16
GRACE_S = 5.0
_TIOCGPTN = 0x80045430  # asm-generic/ioctls.h: the number of a terminal, asked of its master
# Numbers of system calls (asm/unistd_64.h, asm-generic/unistd.h): read itself, and those that wait for several files.
_READ = {"x86_64": 0, "aarch64": 63}
_WAIT = {"x86_64": {7, 23, 232, 270, 271, 281}, "aarch64": {22, 72, 73}}


class Terminal:
    """One child, leader of its session.  What it says comes from `read`; `send` types; `end` leaves nobody behind."""

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
            preexec_fn=_as_anew,
        )
        self._child.delaybeforesend = None
        self.pid = int(self._child.pid or 0)
        self._name = _name(self._child.child_fd)

    def read(self, patience_s: float) -> str | None:
        """What came meanwhile, "" where nothing did; None after the end, even if a daemon still holds the terminal."""
        try:
            return str(self._child.read_nonblocking(CHUNK, patience_s))
        except pexpect.TIMEOUT:
            return "" if self._child.isalive() else None
        except pexpect.EOF:
            return None

    def send(self, text: str) -> None:
        with contextlib.suppress(OSError):  # it ended this moment; its end is what gets told
            self._child.send(text)

    def hides_typing(self) -> bool:
        """Whether the echo is off: it asks for a password."""
        try:
            return not self._child.getecho()
        except OSError:
            return False

    def waits(self) -> bool | None:
        """Whether somebody in the session reads the terminal at this moment; None where that cannot be told."""
        answers = [_reads(pid, self._name) for pid in _session(self.pid)]
        return True if True in answers else None if None in answers else False

    def interrupt(self) -> None:
        """Ctrl-C, as a person would type it; who does not tidy up in time is ended."""
        self.send("\x03")
        deadline = time.monotonic() + GRACE_S
        while _session(self.pid) and time.monotonic() < deadline:
            if self.read(0.05) is None:
                break

    def status(self) -> int:
        """How it ended, as a shell tells it."""
        with contextlib.suppress(pexpect.ExceptionPexpect):
            self._child.wait()
        if self._child.signalstatus is not None:
            return 128 + int(self._child.signalstatus)
        return int(self._child.exitstatus or 0)

    def end(self) -> None:
        """SIGTERM to who is left of the session, then SIGKILL; a daemon that left the session is on its own."""
        for sign, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            deadline = time.monotonic() + patience_s
            for pid in _session(self.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sign)
            while self._left() and time.monotonic() < deadline:
                self.read(0.02)  # who writes his last words into a full terminal never ends
        with contextlib.suppress(OSError, pexpect.ExceptionPexpect):
            self._child.close(force=True)

    def _left(self) -> bool:
        with contextlib.suppress(pexpect.ExceptionPexpect):
            self._child.isalive()  # reaps it
        return bool(_session(self.pid))


@contextlib.contextmanager
def opened(
    argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, columns: int = COLUMNS
) -> Iterator[Terminal]:
    """The terminal while the body lasts; Ctrl-C goes to the child first, so that it can tidy up after itself."""
    terminal = None
    try:
        with _later():
            terminal = Terminal(argv, env, cwd, columns)
        yield terminal
    except KeyboardInterrupt:
        if terminal:
            with heard_by(_not_now):
                terminal.interrupt()
        raise
    finally:
        if terminal:
            with heard_by(_not_now):
                terminal.end()


@contextlib.contextmanager
def _later() -> Iterator[None]:
    """Who asks us to stop meanwhile is heard at the end: a child that nobody knows yet could not be ended."""
    asked: list[int] = []
    with heard_by(lambda number, frame: asked.append(number)):
        yield
    if asked:
        raise KeyboardInterrupt


def _not_now(number: int, frame: object) -> None:
    """An impatient second Ctrl-C must not stop the tidying."""


def _as_anew() -> None:
    """Files that an installer makes are for all, whatever the umask of who called us; signals mean what they mean."""
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _name(master: int) -> str:
    try:
        (number,) = struct.unpack("i", fcntl.ioctl(master, _TIOCGPTN, b"\0" * 4))
    except OSError:
        return ""
    return f"/dev/pts/{number}"


def _session(leader: int) -> list[int]:
    """Who lives in the session: /proc/PID/stat is `pid (name) state ppid pgrp session ...`."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                said = (path / "stat").read_text().rpartition(")")[2].split()
                if int(said[3]) == leader and said[0] not in "ZX":
                    found.append(int(path.name))
    return found


def _reads(pid: int, terminal: str) -> bool | None:
    """/proc/PID/syscall is `number 0xARGUMENT ...` of the call in which it sleeps, or `running`."""
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

"""Read pipes and named pipes, which may never end: with a deadline for silence, and one for all."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from envcheck.core.language import translate
from envcheck.core.messages import _

SILENCE_S = 30.0  # without a byte: its writer will not write any more, or never came
TOTAL_S = 600.0
_POLL_S = 0.2


class LiveStream:
    """A stream with `read`, which ends at a deadline; this is then reported once, on standard error.

    A named pipe has to be open without blocking, so that it opens without a writer.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._fd, self._name = descriptor, name
        self._began = self._heard = time.monotonic()
        self._had_writer = False
        self._ended = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, as many as there are soon; b"" at the end or at a deadline."""
        parts: list[bytes] = []
        left = size
        while left and not self._ended:
            part = self._read_some(left)
            if part:
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def _read_some(self, size: int) -> bytes:
        """Wait for some bytes; sets `_ended`."""
        now = time.monotonic()
        if now - self._heard > SILENCE_S or now - self._began > TOTAL_S:
            self._ended = True
            _report_deadline(self._name, now - self._began)
            return b""
        ready, _writable, _failed = select.select([self._fd], [], [], _POLL_S)
        if not ready:
            return b""
        try:
            part = os.read(self._fd, min(size, 1 << 16))
        except BlockingIOError:
            return b""
        if part:
            self._heard, self._had_writer = time.monotonic(), True
        elif self._had_writer:
            self._ended = True
        else:
            self._await_writer()
        return part

    def _await_writer(self) -> None:
        """An end before the first byte: a named pipe without a writer yet, or an empty input."""
        if os.isatty(self._fd) or not _is_named_pipe(self._fd):
            self._ended = True
            return
        time.sleep(_POLL_S)


def _is_named_pipe(descriptor: int) -> bool:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith("/")
    except OSError:
        return False


def _report_deadline(name: str, elapsed_s: float) -> None:
    said = _("{name} did not end: stopped reading it after {seconds:.0f} s", name=name, seconds=elapsed_s)
    print(translate(_("envcheck: {message}", message=said)), file=sys.stderr)


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[IO[bytes] | LiveStream]:
    """Open a file for reading; a named pipe, whose writer may never come, with a deadline."""
    if not stat.S_ISFIFO(path.stat().st_mode):
        with path.open("rb") as file:
            yield file
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield LiveStream(descriptor, str(path))
    finally:
        os.close(descriptor)

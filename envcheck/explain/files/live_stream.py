"""Read pipes and named pipes, which may never end: with a deadline for silence, and one for all."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

SILENCE_S = 30.0  # without a byte: its writer will not write any more, or never came
TOTAL_S = 600.0
_POLL_S = 0.2


class LiveStream:
    """A stream with `read`, which ends at a deadline; `on_deadline` is then called once.

    A named pipe has to be open without blocking, so that it opens without a writer.
    """

    def __init__(self, descriptor: int, on_deadline: Callable[[float], None]) -> None:
        self._fd, self._on_deadline = descriptor, on_deadline
        self._began = self._heard = time.monotonic()
        self._had_writer = False
        self._ended = False

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
            self._on_deadline(now - self._began)
            return b""
        ready, _, _ = select.select([self._fd], [], [], _POLL_S)
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

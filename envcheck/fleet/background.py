"""A command of envcheck on one host that goes on beside the others' work, until it is told to stop.

Its ssh is of its own, since ClusterShell works through one list at a time; a Ctrl-C of the terminal does not reach it.
However this process ends, the end of that ssh's input is the end of the command there (fleet.aboard).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from typing import IO, Any

from envcheck.fleet import collector
from envcheck.fleet.output import KEPT, LINES_LIMIT, Said
from envcheck.fleet.runner import ALIVE, Did, Order, exit_code
from envcheck.payload import remote_command
from envcheck.payload.remote_collector import MARK

END_S = 10.0
LINE_LIMIT = 1 << 16
_MARK = MARK.encode() + b" "


class Beside:
    """`did` is known whole when it has ended."""

    def __init__(self, host: str, order: Order) -> None:
        self.did, self.killed = Did(host, Said(host)), False
        self._parcels, self._first = order.parcels, threading.Event()
        words = (
            *shlex.split(f"{collector.OPTIONS} {ALIVE}"),
            "-oBatchMode=yes",
            f"-oConnectTimeout={collector.CONNECT_S}",
        )
        self._process = subprocess.Popen(
            ("ssh", *words, host, remote_command.command(self._parcels, order.words[host], order.forget)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._hears = threading.Thread(target=self._hear, daemon=True)
        self._hears.start()

    def first(self, timeout_s: float) -> dict[str, Any] | None:
        """The document that is its first line; None where none came in time, or it has ended."""
        self._first.wait(timeout_s)
        with contextlib.suppress(ValueError, IndexError, RecursionError):
            said = json.loads(self.did.out[0])
            return said if isinstance(said, dict) else None
        return None

    def close(self) -> None:
        """It is told to stop; then it loses its connection."""
        with contextlib.suppress(OSError, ValueError):
            self._tell(b"stop\n")
            self._process.stdin.close()  # type: ignore[union-attr]  # it has one
        self._hears.join(END_S)
        self.killed = self.killed or self._process.poll() is None
        self._process.kill()
        self._process.wait()
        self._hears.join(END_S)

    def _hear(self) -> None:
        assert self._process.stdout
        errors = threading.Thread(target=self._hear_ssh, daemon=True)
        errors.start()
        for line in _lines(self._process.stdout):
            self._line(line.rstrip(b"\n"))
            if self.did.said.lines > LINES_LIMIT:
                self._process.kill()
        errors.join(END_S)
        self.did.said.status = self._process.wait()
        self._first.set()

    def _hear_ssh(self) -> None:
        assert self._process.stderr
        for line in _lines(self._process.stderr):
            self.did.said.err_line(line.rstrip(b"\n"))

    def _line(self, line: bytes) -> None:
        word, _, rest = line.removeprefix(_MARK).partition(b" ")
        text = rest.decode("utf-8", "replace")
        if not line.startswith(_MARK) or word not in (b"out", b"err", b"exit"):
            self.did.said.out_line(line)
            if line.startswith(_MARK) and word == b"want":
                self._give(text.split())
            return
        self.did.said.lines += 1
        if word == b"out":
            self.did.out = [*self.did.out, text][:2]
            self._first.set()
        elif word == b"err":
            self.did.last = [*self.did.last, text[:KEPT]][-12:]
        else:
            self.did.code = exit_code(text)

    def _give(self, wanted: list[str]) -> None:
        with contextlib.suppress(OSError, ValueError):
            for name, parcel in self._parcels.items():
                if name in wanted:
                    self._tell(parcel.data)
            self._tell(b"go\n")

    def _tell(self, data: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.readline(LINE_LIMIT), b"")

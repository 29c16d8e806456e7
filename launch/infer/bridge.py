"""Our terminal, led into a container: what `docker exec -it` does, through the SDK; no docker program is needed.

`python -m launch.infer.bridge JOB`; JOB is a JSON file that is removed once it was read: container, argv,
environment, workdir, mark.  Whoever bears the mark in there is ended when this ends, however that comes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import INTERRUPTED, STEP_FAILED, EnvcheckError
from envcheck.core.signals import heard_by
from installers.images import engine
from installers.targets.container_errors import asked
from installers.targets.exec_target import END, SHELL
from launch.targets.clean_environment import MARK

if TYPE_CHECKING:
    from docker import APIClient

CHUNK = 1 << 16
END_OF_INPUT = b"\x04"
CODE_S = 5.0  # in which the engine knows the exit code of a command whose output has ended


def main() -> int:
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    path.unlink()
    try:
        client = engine.connect(engine.look())
        with contextlib.closing(client):
            return lead(client.api, job)
    except EnvcheckError as err:
        print(f"envcheck: {err.message}\n  next: {err.next_step}", file=sys.stderr)
        return STEP_FAILED


def lead(api: APIClient, job: dict[str, Any]) -> int:
    """To the end of the command; its exit code, or 130 where we were told to stop."""
    pairs = [f"{name}={text}" for name, text in job["environment"].items()]
    words = ["env", "-i", *pairs, "sh", "-c", SHELL, "sh", job["workdir"], *job["argv"]]
    made = str(asked(lambda: api.exec_create(job["container"], words, stdin=True, tty=True))["Id"])
    try:
        socket = asked(lambda: api.exec_start(made, tty=True, socket=True))
        with contextlib.closing(socket):
            stopped = _Bridge(api, made, getattr(socket, "_sock", socket)).run()
        return INTERRUPTED if stopped else _code(api, made)
    finally:
        end = ["sh", "-c", END, "sh", f"{MARK}={job['mark']}"]
        with contextlib.suppress(EnvcheckError):
            asked(lambda: api.exec_start(asked(lambda: api.exec_create(job["container"], end))["Id"]))


def _code(api: APIClient, made: str) -> int:
    until = time.monotonic() + CODE_S
    while time.monotonic() < until:
        found = asked(lambda: api.exec_inspect(made))
        if not found.get("Running"):
            return int(found["ExitCode"] or 0)
        time.sleep(0.1)
    return STEP_FAILED


class _Bridge:
    """Both directions, until the other side ends or a signal comes."""

    def __init__(self, api: APIClient, made: str, socket: Any) -> None:
        self.api, self.made, self.socket = api, made, socket
        self.stopped = False
        self.hear, self.tell = os.pipe()  # wakes the waiting: the other side has ended, or a signal came

    def run(self) -> bool:
        """Whether a signal ended it."""
        self.socket.settimeout(None)
        listener = threading.Thread(target=self._listen, daemon=True)
        with raw_terminal(), heard_by(self._stop), self._sized():
            listener.start()
            self._type()
        return self.stopped

    def _stop(self, number: int, frame: object) -> None:
        self.stopped = True
        os.write(self.tell, b"s")

    @contextlib.contextmanager
    def _sized(self) -> Iterator[None]:
        """The terminal in there is as large as ours, and stays so."""
        before = signal.signal(signal.SIGWINCH, lambda number, frame: self._resize())
        self._resize()
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)

    def _resize(self) -> None:
        with contextlib.suppress(OSError, EnvcheckError):
            size = os.get_terminal_size(0)
            asked(lambda: self.api.exec_resize(self.made, height=size.lines, width=size.columns))

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.socket.recv(CHUNK):
                while data:
                    data = data[os.write(1, data) :]
        os.write(self.tell, b"e")

    def _type(self) -> None:
        """What is typed here is typed there; Ctrl-C as well, the terminal being raw."""
        sources = [0, self.hear]
        while self.hear not in (ready := select.select(sources, [], [])[0]):
            data = os.read(0, CHUNK) if ready else b""
            if not data:
                sources.remove(0)
            with contextlib.suppress(OSError):
                self.socket.sendall(data or END_OF_INPUT)


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes through as it is; nothing to do where there is no terminal."""
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    sys.exit(main())

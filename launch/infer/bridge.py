"""Connect the terminal to a command in a container, like `docker exec -it` but through the SDK, without the docker CLI.

`python -m launch.infer.bridge JOB`; JOB is a JSON file with container, argv, environment, workdir and mark, deleted
after reading.  All processes in the container with this mark are ended when the bridge exits.
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
from envcheck.core.signals import handle_signals
from installers.images import docker_engine
from installers.targets.container_errors import call_engine
from installers.targets.exec_target import END, SHELL
from launch.targets.clean_environment import MARK

if TYPE_CHECKING:
    from docker import APIClient

CHUNK = 1 << 16
END_OF_INPUT = b"\x04"
CODE_S = 5.0  # wait for the engine to report the exit code after the end of the output


def main() -> int:
    """Run the job of the command line; return the exit code."""
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    path.unlink()
    try:
        client = docker_engine.open_client(docker_engine.inspect_engine())
        with contextlib.closing(client):
            return attach_terminal(client.api, job)
    except EnvcheckError as err:
        print(f"envcheck: {err.message}\n  next: {err.next_step}", file=sys.stderr)
        return STEP_FAILED


def attach_terminal(api: APIClient, job: dict[str, Any]) -> int:
    """Run the job's command to its end; return its exit code, or 130 after a signal."""
    pairs = [f"{name}={text}" for name, text in job["environment"].items()]
    words = ["env", "-i", *pairs, "sh", "-c", SHELL, "sh", job["workdir"], *job["argv"]]
    made = str(call_engine(lambda: api.exec_create(job["container"], words, stdin=True, tty=True))["Id"])
    try:
        socket = call_engine(lambda: api.exec_start(made, tty=True, socket=True))
        with contextlib.closing(socket):
            stopped = _TerminalBridge(api, made, getattr(socket, "_sock", socket)).run()
        return INTERRUPTED if stopped else _wait_exit_code(api, made)
    finally:
        end = ["sh", "-c", END, "sh", f"{MARK}={job['mark']}"]
        with contextlib.suppress(EnvcheckError):
            call_engine(lambda: api.exec_start(call_engine(lambda: api.exec_create(job["container"], end))["Id"]))


def _wait_exit_code(api: APIClient, made: str) -> int:
    until = time.monotonic() + CODE_S
    while time.monotonic() < until:
        found = call_engine(lambda: api.exec_inspect(made))
        if not found.get("Running"):
            return int(found["ExitCode"] or 0)
        time.sleep(0.1)
    return STEP_FAILED


class _TerminalBridge:
    """Copies input and output until the command ends or a signal arrives."""

    def __init__(self, api: APIClient, made: str, socket: Any) -> None:
        self.api, self.made, self.socket = api, made, socket
        self.stopped = False
        self.hear, self.tell = os.pipe()  # wakes up _copy_input when the command ends or a signal arrives

    def run(self) -> bool:
        """Return whether a signal ended the bridge."""
        self.socket.settimeout(None)
        listener = threading.Thread(target=self._copy_output, daemon=True)
        with raw_terminal(), handle_signals(self._on_stop_signal), self._sync_size():
            listener.start()
            self._copy_input()
        return self.stopped

    def _on_stop_signal(self, number: int, frame: object) -> None:
        self.stopped = True
        os.write(self.tell, b"s")

    @contextlib.contextmanager
    def _sync_size(self) -> Iterator[None]:
        """Keep the size of the container's terminal equal to the local one."""
        before = signal.signal(signal.SIGWINCH, lambda number, frame: self._resize_terminal())
        self._resize_terminal()
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)

    def _resize_terminal(self) -> None:
        with contextlib.suppress(OSError, EnvcheckError):
            size = os.get_terminal_size(0)
            call_engine(lambda: self.api.exec_resize(self.made, height=size.lines, width=size.columns))

    def _copy_output(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.socket.recv(CHUNK):
                while data:
                    data = data[os.write(1, data) :]
        os.write(self.tell, b"e")

    def _copy_input(self) -> None:
        """Forward the input, including Ctrl-C: the terminal is raw."""
        sources = [0, self.hear]
        while self.hear not in (ready := select.select(sources, [], [])[0]):
            data = os.read(0, CHUNK) if ready else b""
            if not data:
                sources.remove(0)
            with contextlib.suppress(OSError):
                self.socket.sendall(data or END_OF_INPUT)


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Switch standard input to raw mode; does nothing if it is not a terminal."""
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

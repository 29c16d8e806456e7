"""The talk with container_agent in a container: what it tells becomes the run's logs and its family here."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.core import process
from envcheck.core.errors import StepError
from installers.targets.container_errors import asked
from installers.targets.exec_target import OWN, SHELL, ContainerTarget

if TYPE_CHECKING:
    import docker

BEGIN_S, END_S = 60.0, 30.0
LINE = 1 << 20  # characters of one line; the sitter's pieces are a third of that
_FILE = re.compile(r"\w[\w.-]{0,100}(/\w[\w.-]{0,100}){0,6}")  # below the log folder, nothing that leads out of it


class ReportedProcesses:
    """A family of which others tell."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.met: set[int] = set()
        self.peak_bytes = 0
        self.news = threading.Event()

    def look(self) -> None:
        """What there is to know comes by itself."""

    def living(self) -> bool:
        return bool(self.met - self.dead.keys())

    def wait(self, seconds: float) -> None:
        self.news.wait(seconds)
        self.news.clear()

    def close(self) -> None:
        self.news.set()


class ContainerTraining:
    """A training that a sitter in the container stays with; the end of this talk is the end of the training."""

    def __init__(
        self, client: docker.DockerClient, seat: ContainerTarget, words: Sequence[str], run: Path, output: str
    ) -> None:
        self.client, self.run, self.output, self.family = client, run, output, ReportedProcesses()
        self.status: int | None = None
        self.made: list[str] = []
        self._refused = ""
        self._answered, self._over = threading.Event(), threading.Event()
        self._socket = self._opened(seat, words)
        threading.Thread(target=self._listen, daemon=True).start()
        self._answered.wait(BEGIN_S)
        if self._refused:
            self.end()
            raise StepError(f"cannot start {self._refused}", f"docker logs and {run}/log/launcher.log may tell more")

    def _opened(self, seat: ContainerTarget, words: Sequence[str]) -> Any:
        shell = ["bash", "-lc", SHELL, "bash", OWN, *words]
        made = asked(lambda: seat.api.exec_create(seat.container, shell, stdin=True))
        self._command = str(made["Id"])
        return asked(lambda: seat.api.exec_start(self._command, socket=True))

    def poll(self) -> int | None:
        return self.status if self._over.is_set() else None

    def end(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """Closing our side is the order; a sitter that does not obey in time is left to its own end."""
        raw = getattr(self._socket, "_sock", self._socket)
        until = time.monotonic() + save_s
        with contextlib.suppress(OSError):
            if save_s:
                raw.sendall(b"save\n")
            while time.monotonic() < until and not hurry() and not self._over.wait(0.1):
                pass
            raw.shutdown(1)  # writing: what it still says is heard
        self._over.wait(END_S)
        with contextlib.suppress(OSError):
            self._socket.close()
        self.client.close()

    def outputs(self) -> list[str]:
        return self.made

    def _listen(self) -> None:
        try:
            for line in self._lines():
                self._take(line)
        except (OSError, ValueError):
            pass  # the engine has gone: an ending of its own, below
        finally:
            if self.status is None:
                self.status = self._left()
            self._answered.set()
            self._over.set()
            self.family.news.set()

    def _lines(self) -> Iterator[str]:
        """What the sitter says; what a login shell's start files say is none of it."""
        from docker.utils.socket import STDOUT, frames_iter

        rest = b""
        for stream, data in frames_iter(self._socket, tty=False):  # type: ignore[no-untyped-call]
            *lines, rest = (rest + data).split(b"\n") if stream == STDOUT else (rest,)
            yield from (line.decode("utf-8", "replace") for line in lines if line.startswith(b"{"))
            rest = rest[-LINE:]

    def _take(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        self._answered.set()
        if isinstance(said.get("file"), str):
            self._log(said["file"], str(said.get("data", "")))
        elif isinstance(said.get("met"), int):
            self.family.met.add(said["met"])
        elif isinstance(said.get("dead"), int):
            code = said.get("code")
            self.family.dead.setdefault(said["dead"], (time.time(), code if isinstance(code, int) else None))
            self.family.news.set()
        elif "peak" in said:
            self.family.peak_bytes = int(said["peak"])
        elif "unstarted" in said:
            self._refused = str(said["unstarted"])
        elif isinstance(said.get("end"), int):
            self.status, self.made = said["end"], [f"{self.output}/{name}" for name in said.get("outputs", ())]

    def _log(self, name: str, data: str) -> None:
        if not _FILE.fullmatch(name) or ".." in name:
            return
        path = self.run / "log" / name
        with contextlib.suppress(OSError, ValueError):  # a full disk here must not end a training there
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(base64.b64decode(data))

    def _left(self) -> int:
        """The sitter went without a last word: the engine may know how."""
        with contextlib.suppress(StepError):
            found = asked(lambda: self.client.api.exec_inspect(self._command)).get("ExitCode")
            return 1 if found in (None, 0) else int(found)
        return process.HUNG

"""The connection to container_agent in a container: its events become log files and process states here."""

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

from envcheck.core.errors import StepError
from envcheck.core.messages import _, fill
from envcheck.core.portable.exit_status import HUNG
from installers.targets.container_errors import call_engine
from installers.targets.exec_target import OWN, SHELL, ContainerTarget

if TYPE_CHECKING:
    import docker

BEGIN_S, END_S = 60.0, 40.0
LINE = 1 << 20  # limit of a line in bytes; the agent's are a third of that
_FILE = re.compile(r"\w[\w.-]{0,100}(/\w[\w.-]{0,100}){0,6}")  # relative path below the log folder


class ReportedProcesses:
    """Worker processes as reported by the agent (see launch.targets.stage.WorkerProcesses)."""

    def __init__(self) -> None:
        self.dead: dict[int, tuple[float, int | None]] = {}
        self.met: set[int] = set()
        self.peak_bytes = 0
        self.news = threading.Event()

    def update_workers(self) -> None:
        """Do nothing: events arrive in the reader thread."""

    def has_living_worker(self) -> bool:
        """Whether a reported worker has not ended."""
        return bool(self.met - self.dead.keys())

    def wait_for_death(self, seconds: float) -> None:
        """Wait for an event, at most for `seconds`."""
        self.news.wait(seconds)
        self.news.clear()

    def close(self) -> None:
        """Wake up a waiting thread."""
        self.news.set()


class ContainerTraining:
    """A training supervised by container_agent in the container; it goes on if the connection breaks."""

    def __init__(
        self, client: docker.DockerClient, seat: ContainerTarget, words: Sequence[str], run: Path, output: str
    ) -> None:
        self.client, self.run, self.output, self.family = client, run, output, ReportedProcesses()
        self.status: int | None = None
        self.made: list[str] = []
        self._refused = self._reason = ""
        self._answered, self._over = threading.Event(), threading.Event()
        self._socket = self._start_agent(seat, words)
        threading.Thread(target=self._read_events, daemon=True).start()
        self._answered.wait(BEGIN_S)
        if self._refused:
            self.end_training()
            raise StepError(
                _("cannot start {program}: {reason}", program=self._refused, reason=fill(self._reason)),
                _("inspect {log}", log=run / "log" / "launcher.log"),
            )

    def _start_agent(self, seat: ContainerTarget, words: Sequence[str]) -> Any:
        shell = ["bash", "-lc", SHELL, "bash", OWN, *words]
        made = call_engine(lambda: seat.api.exec_create(seat.container, shell, stdin=True))
        self._command = str(made["Id"])
        return call_engine(lambda: seat.api.exec_start(self._command, socket=True))

    def poll(self) -> int | None:
        """Return the launcher's exit status, None while it runs."""
        return self.status if self._over.is_set() else None

    def end_training(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """Ask the agent to end the training, and wait for its last event up to END_S."""
        raw = getattr(self._socket, "_sock", self._socket)
        until = time.monotonic() + save_s
        with contextlib.suppress(OSError):
            if save_s:
                raw.sendall(b"save\n")
            while time.monotonic() < until and not hurry() and not self._over.wait(0.1):
                pass
            raw.sendall(b"stop\n")
        self._over.wait(END_S)
        with contextlib.suppress(OSError):
            self._socket.close()
        self.client.close()

    def describe_processes(self) -> dict[str, Any]:
        """Return the mark of the processes in the container for the record."""
        return {"mark": self.output.rpartition("/")[0]}

    def list_checkpoints(self) -> list[str]:
        """Return the paths of the checkpoints in the container, oldest first."""
        return self.made

    def _read_events(self) -> None:
        try:
            for line in self._iterate_lines():
                self._apply_event(line)
        except (OSError, ValueError):
            pass  # the connection to the engine is lost: handled below
        finally:
            if self.status is None:
                self.status = self._read_exit_code()
            self._answered.set()
            self._over.set()
            self.family.news.set()

    def _iterate_lines(self) -> Iterator[str]:
        """Yield the agent's events; other output, such as that of login scripts, is skipped."""
        from docker.utils.socket import STDOUT, frames_iter

        rest = b""
        for stream, data in frames_iter(self._socket, tty=False):  # type: ignore[no-untyped-call]
            *lines, rest = (rest + data).split(b"\n") if stream == STDOUT else (rest,)
            yield from (line.decode("utf-8", "replace") for line in lines if line.startswith(b"{"))
            rest = rest[-LINE:]

    def _apply_event(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        self._answered.set()
        if isinstance(said.get("file"), str):
            self._append_log(said["file"], str(said.get("data", "")))
        elif isinstance(said.get("met"), int):
            self.family.met.add(said["met"])
        elif isinstance(said.get("dead"), int):
            code = said.get("code")
            self.family.dead.setdefault(said["dead"], (time.time(), code if isinstance(code, int) else None))
            self.family.news.set()
        elif "peak" in said:
            self.family.peak_bytes = int(said["peak"])
        elif "unstarted" in said:
            self._refused, self._reason = str(said["unstarted"]), str(said.get("reason", ""))
        elif isinstance(said.get("end"), int):
            self.status, self.made = said["end"], [f"{self.output}/{name}" for name in said.get("outputs", ())]

    def _append_log(self, name: str, data: str) -> None:
        if not _FILE.fullmatch(name) or ".." in name:
            return
        path = self.run / "log" / name
        with contextlib.suppress(OSError, ValueError):  # a full disk here must not end the training
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(base64.b64decode(data))

    def _read_exit_code(self) -> int:
        """Return the exit code of an agent that ended without a last event, as the engine reports it."""
        with contextlib.suppress(StepError):
            found = call_engine(lambda: self.client.api.exec_inspect(self._command)).get("ExitCode")
            return 1 if found in (None, 0) else int(found)
        return HUNG

"""A training on this host: started by this process, or by a supervisor that was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from envcheck.core.errors import StepError
from envcheck.core.messages import _, fill
from launch.programs import container_agent
from launch.run import process_tree
from launch.run.process_tree import MarkedProcesses, ProcessTree
from launch.run.record import list_checkpoints

STATUS_FILE = ".exit"  # in the run folder; written by the shim, or by the agent in a container
BEGIN_S, GRACE_S, RELEASE_S, LOOK_S = 60.0, 8.0, 5.0, 0.05


def read_status(run: Path) -> int | None:
    """Return the launcher's exit status that the shim wrote, None while the launcher runs or if it is unknown."""
    try:
        said = json.loads((run / STATUS_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    status = said.get("status") if isinstance(said, dict) else None
    return status if isinstance(status, int) else None


class HostTraining:
    """A training whose shim is a child process of envcheck."""

    def __init__(self, shim: subprocess.Popen[bytes], job: Mapping[str, Any], run: Path) -> None:
        self.shim, self.run, self.family = shim, run, ProcessTree(shim.pid)
        self.status: int | None = None
        self.launcher = 0
        self._rest = b""
        self._send_job(job)

    def _send_job(self, job: Mapping[str, Any]) -> None:
        assert self.shim.stdin and self.shim.stdout
        with contextlib.suppress(OSError):
            self.shim.stdin.write(json.dumps(job).encode() + b"\n")
            self.shim.stdin.flush()
        os.set_blocking(self.shim.stdout.fileno(), False)
        until = time.monotonic() + BEGIN_S
        while not (self.launcher or self.shim.poll() is not None or time.monotonic() > until):
            self._read_events()
            time.sleep(LOOK_S / 10)
        self._read_events()
        if not self.launcher:
            self._release_shim()
            raise StepError(
                _("cannot start {program}: {reason}", program=job["argv"][0], reason=_("the process ended")),
                _("see the command in {path}", path=self.run / "run.json"),
            )

    def _read_events(self) -> None:
        assert self.shim.stdout
        try:
            self._rest += self.shim.stdout.read() or b""
        except (OSError, ValueError):
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._apply_event(json.loads(line))

    def _apply_event(self, event: Mapping[str, Any]) -> None:
        if "unstarted" in event:
            self._release_shim()
            reason = fill(str(event["reason"]).lower())
            raise StepError(
                _("cannot start {program}: {reason}", program=event["unstarted"], reason=reason),
                _("see the command in {path}", path=self.run / "run.json"),
            )
        self.launcher = int(event.get("began", self.launcher))
        self.status = event.get("end", self.status)

    def poll(self) -> int | None:
        """Return the launcher's exit status, negative for a signal; None while it runs."""
        self._read_events()
        if self.status is None:
            self.status = self.shim.poll()  # somebody killed the shim: the remaining processes are ended
        return self.status

    def describe_processes(self) -> dict[str, Any]:
        """Return the shim and its start time for the record."""
        try:
            return {"pid": self.shim.pid, "pid_started": psutil.Process(self.shim.pid).create_time()}
        except psutil.Error:
            return {}

    def end_training(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """End the launcher, which ends its workers, then all remaining processes of the run in any session."""
        if save_s and self.poll() is None:
            self._request_stop(time.monotonic() + save_s, hurry)
        below = process_tree.list_descendants(self.shim.pid)
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.shim.pid, signal.SIGTERM)
            until = time.monotonic() + GRACE_S
            while self.poll() is None and time.monotonic() < until:
                time.sleep(LOOK_S)
            below += process_tree.list_descendants(self.shim.pid)
        _kill_processes([process for process in below if self.status is None])
        until = time.monotonic() + RELEASE_S  # a launcher that hangs in a driver survives SIGKILL
        while self.poll() is None and time.monotonic() < until:
            time.sleep(LOOK_S)
        self._release_shim()
        process_tree.end_survivors(self.run, below)
        container_agent.remove_environment_dumps(self.run / "log")

    def _release_shim(self) -> None:
        """Let the shim exit."""
        for stream in (self.shim.stdin, self.shim.stdout):
            with contextlib.suppress(OSError, ValueError):
                if stream:
                    stream.close()
        try:
            self.shim.wait(RELEASE_S)
        except subprocess.TimeoutExpired:
            self.shim.kill()
            self.shim.wait()

    def _request_stop(self, until: float, hurry: Callable[[], bool]) -> None:
        """Send SIGTERM to the workers (not the launcher, which would end them before they save), and wait."""
        ask_to_save(self.family, self.launcher)
        while self.poll() is None and time.monotonic() < until and not hurry():
            time.sleep(0.1)

    def list_checkpoints(self) -> list[str]:
        """Return the paths of the checkpoints, oldest first."""
        return list_checkpoints(self.run / "output")


class AdoptedTraining:
    """A training whose supervisor was killed; `said` is the record of the run."""

    def __init__(self, run: Path, said: Mapping[str, Any]) -> None:
        self.run, self.shim = run, find_shim(said)
        self.family = MarkedProcesses(str(run), self.shim.pid if self.shim else 0)

    def poll(self) -> int | None:
        """Return the launcher's exit status, None while it runs; as for SIGKILL if nobody is left who knows it."""
        status = read_status(self.run)
        if status is not None or (self.shim and self.shim.is_running() and not process_tree.has_ended(self.shim)):
            return status
        return None if self.family.list_processes() else _final_status(self.run)

    def describe_processes(self) -> dict[str, Any]:
        """Return the shim and its start time for the record."""
        return {"pid": self.shim.pid, "pid_started": self.shim.create_time()} if self.shim else {}

    def end_training(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """End all processes of the run."""
        if save_s and self.poll() is None:
            ask_to_save(self.family, _find_launcher(self.shim))
            until = time.monotonic() + save_s
            while self.poll() is None and time.monotonic() < until and not hurry():
                time.sleep(0.1)
        end_orphan(self.run, self.shim)

    def list_checkpoints(self) -> list[str]:
        """Return the paths of the checkpoints, oldest first."""
        return list_checkpoints(self.run / "output")


def _final_status(run: Path) -> int:
    status = read_status(run)  # written between two looks
    return -signal.SIGKILL if status is None else status


def find_shim(said: Mapping[str, Any]) -> psutil.Process | None:
    """Return the recorded shim if it still runs."""
    known = said.get("launcher")
    return process_tree.find_process(known.get("pid"), known.get("pid_started")) if isinstance(known, dict) else None


def end_orphan(run: Path, shim: psutil.Process | None) -> None:
    """End all processes of a run without supervisor, first by SIGTERM to the launcher's group."""
    below = process_tree.find_members(str(run), shim.pid if shim else 0)
    if shim:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(shim.pid, signal.SIGTERM)
        psutil.wait_procs([shim], timeout=GRACE_S)
        below += process_tree.find_members(str(run), shim.pid)
    process_tree.end_survivors(run, below)
    container_agent.remove_environment_dumps(run / "log")


def ask_to_save(family: ProcessTree, launcher: int) -> None:
    """Send SIGTERM to the workers, or to a program without workers, which then save and exit."""
    family.update_workers()
    workers = [process for rank, process in family.alive.items() if rank not in family.dead]
    with contextlib.suppress(psutil.Error):
        for process in workers or [psutil.Process(launcher)]:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGTERM)


def _find_launcher(shim: psutil.Process | None) -> int:
    with contextlib.suppress(psutil.Error):
        return next((child.pid for child in shim.children()), 0) if shim else 0
    return 0


def _kill_processes(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()

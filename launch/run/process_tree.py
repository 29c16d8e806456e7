"""The processes of a run: workers, exit codes, memory use, remaining processes.

Ranks are those on the node, which launchers use in the names of logs.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from launch.programs.container_agent import RANKS
from launch.targets.clean_environment import MARK

START_TOLERANCE_S = 2.0  # the kernel counts start times from a boot time that shifts with the clock


class ProcessTree:
    """The processes below the launcher (see launch.targets.stage.WorkerProcesses).

    The exit code of a worker can be read only until the launcher reaps it, within a second.  Therefore
    `wait_for_death` uses pidfds, which wake it up immediately.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.peak_bytes = pid, 0
        self.alive: dict[int, psutil.Process] = {}
        self.dead: dict[int, tuple[float, int | None]] = {}
        self._watched: dict[int, int] = {}  # pidfd → rank
        self._poll = select.poll()

    def update_workers(self) -> None:
        """Look for new and ended workers, and measure the memory."""
        below = self.list_processes()
        known = {process.pid for process in self.alive.values()}
        for process in below:
            rank = None if process.pid in known else _read_rank(process)
            if rank is not None and rank not in self.alive:
                self._register_worker(rank, process)
        for rank, process in self.alive.items():
            if rank not in self.dead and has_ended(process):
                self._record_death(rank)
        self.peak_bytes = max(self.peak_bytes, sum(_resident_bytes(process) for process in below))

    def list_processes(self) -> list[psutil.Process]:
        """Return the processes below the launcher."""
        return list_descendants(self.pid)

    def has_living_worker(self) -> bool:
        """Return whether a worker was alive at the last update."""
        return any(rank not in self.dead for rank in self.alive)

    def wait_for_death(self, seconds: float) -> None:
        """Wait until a worker ends, at most for `seconds`."""
        for rank in {self._watched[file] for file, _unused in self._poll.poll(seconds * 1000)}:
            self._record_death(rank)

    def close(self) -> None:
        """Close the pidfds."""
        for file in tuple(self._watched):
            self._stop_watching(file)

    def _register_worker(self, rank: int, process: psutil.Process) -> None:
        self.alive[rank] = process
        with contextlib.suppress(OSError):  # kernel before 5.3: ended workers are found by polling
            file = os.pidfd_open(process.pid)
            self._watched[file] = rank
            self._poll.register(file, select.POLLIN)

    def _record_death(self, rank: int) -> None:
        self.dead.setdefault(rank, (time.time(), _exit_code(self.alive[rank].pid)))
        for file in [file for file, of in self._watched.items() if of == rank]:
            self._stop_watching(file)

    def _stop_watching(self, file: int) -> None:
        self._poll.unregister(file)
        del self._watched[file]
        os.close(file)


def _read_rank(process: psutil.Process) -> int | None:
    """Return the rank that the launcher set in the environment; None for children, which inherit it."""
    with contextlib.suppress(psutil.Error, OSError):
        number = _read_rank_variable(process)
        parent = None if number is None else process.parent()
        return None if parent and _read_rank_variable(parent) == number else number
    return None


def _read_rank_variable(process: psutil.Process) -> int | None:
    variables = process.environ()
    text = next((variables[name] for name in RANKS if variables.get(name)), "")
    return int(text) if text.isdecimal() else None


def has_ended(process: psutil.Process) -> bool:
    """Whether the process has exited, even if its parent has not reaped it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _exit_code(pid: int) -> int | None:
    """Return the exit code of a zombie from /proc/PID/stat, negative for a signal; None if already reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[-1])) if fields[0] in ("Z", "X") else None
    except (OSError, ValueError, IndexError):
        return None


def _resident_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


class MarkedProcesses(ProcessTree):
    """The processes of a run whose supervisor was killed: those with its mark, and those below its shim."""

    def __init__(self, mark: str, pid: int) -> None:
        super().__init__(pid)
        self.mark = mark

    def list_processes(self) -> list[psutil.Process]:
        """Return the living processes of the run."""
        return find_members(self.mark, self.pid)


def list_descendants(pid: int) -> list[psutil.Process]:
    """Return the processes below this one, [] if it has ended."""
    try:
        return psutil.Process(pid).children(recursive=True) if pid > 0 else []
    except psutil.Error:
        return []


def find_survivors(run: Path) -> list[psutil.Process]:
    """Return all living processes of the run by their mark: paddle puts workers into other sessions."""
    return [process for process, mark in _iterate_marked() if mark == str(run)]


def find_members(mark: str, shim: int = 0) -> list[psutil.Process]:
    """Return the living processes with the mark, and those below the shim, which may have lost it; not the shim."""
    found = {process.pid: process for process in find_survivors(Path(mark))}
    found |= {process.pid: process for process in list_descendants(shim) if not has_ended(process)}
    return [process for pid, process in found.items() if pid != shim]


def find_process(pid: object, started: object) -> psutil.Process | None:
    """Return the recorded process if it still runs; its start time tells it from a later one with the same pid."""
    if not isinstance(pid, int) or isinstance(pid, bool) or not isinstance(started, (int, float)) or pid <= 0:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < START_TOLERANCE_S and not has_ended(process)
    except (psutil.Error, ValueError, OverflowError):
        return None
    return process if same else None


def end_survivors(run: Path, more: Iterable[psutil.Process] = ()) -> None:
    """End all processes of the run, and `more`, with SIGTERM, then SIGKILL, waiting 3 s after each.

    SIGKILL is repeated for processes that others started meanwhile.
    """
    known = {process.pid: process for process in more}
    for sign in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        known |= {process.pid: process for process in find_survivors(run)}
        left = [process for process in known.values() if process.is_running() and not has_ended(process)]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(sign)
        if left:
            psutil.wait_procs(left, timeout=3)


def list_outlived(mark: str, patience_s: float = 2.0) -> tuple[int, ...]:
    """Return the pids of the run that are still alive after `patience_s`; root also sees those in containers."""
    left = find_survivors(Path(mark))
    if left:
        psutil.wait_procs(left, timeout=patience_s)
    return tuple(process.pid for process in find_survivors(Path(mark))) if left else ()


def find_workers(mark: str) -> dict[int, int]:
    """Return rank → pid of the workers on this host; root also sees those in containers."""
    found: dict[int, int] = {}
    for process, its in _iterate_marked():
        rank = _read_rank(process) if its == mark else None
        if rank is not None:
            found.setdefault(rank, process.pid)
    return found


def find_orphan(runs: Path) -> tuple[str, int] | None:
    """Return (id, pid) of a run in this folder whose processes survived its supervisor, None without one."""
    return next(
        ((Path(mark).name, pids[0]) for mark, pids in living_marks().items() if Path(mark).parent == runs), None
    )


def living_marks() -> dict[str, list[int]]:
    """Return mark → pids of all runs with living processes on this host."""
    found: dict[str, list[int]] = {}
    for process, mark in _iterate_marked():
        found.setdefault(mark, []).append(process.pid)
    return found


def _iterate_marked() -> Iterator[tuple[psutil.Process, str]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mark = process.environ().get(MARK)
            if mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process, mark

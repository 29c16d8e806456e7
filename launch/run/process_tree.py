"""The processes of a run: who is a worker, who died and how, how much memory they hold, who is left.

A worker's number is that on its node: the launchers name its log by it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from launch.programs.container_agent import RANKS
from launch.targets.clean_environment import MARK


class ProcessTree:
    """The processes below the launcher.

    `dead` holds when each worker died and its code, None when nobody saw that in time: a dead worker can be read only
    until the launcher has looked, at most a second.  So `wait` wakes up the moment one dies, by the kernel's pidfd.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.peak_bytes = pid, 0
        self.alive: dict[int, psutil.Process] = {}
        self.dead: dict[int, tuple[float, int | None]] = {}
        self._watched: dict[int, int] = {}  # pidfd → rank
        self._poll = select.poll()

    def look(self) -> None:
        """Who is new, who died, and how much memory all hold together."""
        try:
            below = psutil.Process(self.pid).children(recursive=True)
        except psutil.Error:
            return
        known = {process.pid for process in self.alive.values()}
        for process in below:
            rank = None if process.pid in known else _rank(process)
            if rank is not None and rank not in self.alive:
                self._meet(rank, process)
        for rank, process in self.alive.items():
            if rank not in self.dead and _gone(process):
                self._mourn(rank)
        self.peak_bytes = max(self.peak_bytes, sum(_resident(process) for process in below))

    def living(self) -> bool:
        return any(rank not in self.dead for rank in self.alive)

    def wait(self, seconds: float) -> None:
        """So long, or until a worker dies."""
        for rank in {self._watched[file] for file, _ in self._poll.poll(seconds * 1000)}:
            self._mourn(rank)

    def close(self) -> None:
        for file in tuple(self._watched):
            self._forget(file)

    def _meet(self, rank: int, process: psutil.Process) -> None:
        self.alive[rank] = process
        with contextlib.suppress(OSError):  # a kernel before 5.3: looking every now and then must do
            file = os.pidfd_open(process.pid)
            self._watched[file] = rank
            self._poll.register(file, select.POLLIN)

    def _mourn(self, rank: int) -> None:
        self.dead.setdefault(rank, (time.time(), _exit_code(self.alive[rank].pid)))
        for file in [file for file, of in self._watched.items() if of == rank]:
            self._forget(file)

    def _forget(self, file: int) -> None:
        self._poll.unregister(file)
        del self._watched[file]
        os.close(file)


def _rank(process: psutil.Process) -> int | None:
    """Of a worker: the launcher gives it a number in its environment.  Its own children inherit it."""
    with contextlib.suppress(psutil.Error, OSError):
        number = _number(process)
        parent = None if number is None else process.parent()
        return None if parent and _number(parent) == number else number
    return None


def _number(process: psutil.Process) -> int | None:
    variables = process.environ()
    text = next((variables[name] for name in RANKS if variables.get(name)), "")
    return int(text) if text.isdecimal() else None


def _gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _exit_code(pid: int) -> int | None:
    """A zombie's code from the last field of /proc/PID/stat; minus the signal's number as in subprocess."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[-1])) if fields[0] in ("Z", "X") else None
    except (OSError, ValueError, IndexError):
        return None


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def survivors(run: Path) -> list[psutil.Process]:
    """Every living process of this run: paddle gives its workers sessions of their own, the mark stays with them."""
    return [process for process, mark in _marked() if mark == str(run)]


def end_survivors(run: Path) -> None:
    """Whoever is left of this run, in whatever session: asked first, then made to."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        left = survivors(run)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(sign)
        if left:
            psutil.wait_procs(left, timeout=3)


def outlived(mark: str, patience_s: float = 2.0) -> tuple[int, ...]:
    """Who of a run that was ended is still there a moment later; of a container's too, for root."""
    left = survivors(Path(mark))
    if left:
        psutil.wait_procs(left, timeout=patience_s)
    return tuple(process.pid for process in survivors(Path(mark))) if left else ()


def ranks(mark: str) -> dict[int, int]:
    """The workers of a run, rank → pid, as this host sees them: of a container too, for root."""
    found: dict[int, int] = {}
    for process, its in _marked():
        rank = _rank(process) if its == mark else None
        if rank is not None:
            found.setdefault(rank, process.pid)
    return found


def find_orphan(runs: Path) -> str | None:
    """A process of a run in this folder whose envcheck was killed before it could end it."""
    found = [pids[0] for mark, pids in living_marks().items() if mark.startswith(f"{runs}/")]
    return f"{found[0]} (left over from a run that was killed)" if found else None


def living_marks() -> dict[str, list[int]]:
    """The marks of all runs of which something lives on this host, and the processes that bear them."""
    found: dict[str, list[int]] = {}
    for process, mark in _marked():
        found.setdefault(mark, []).append(process.pid)
    return found


def _marked() -> Iterator[tuple[psutil.Process, str]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mark = process.environ().get(MARK)
            if mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process, mark

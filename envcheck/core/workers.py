"""Share work among forks of this process, which end when it ends, however it ends.

Plain forks: the executors of the standard library leave their processes behind if this one is killed, close their
standard input, which a path may name, and need semaphores, for which a container may lack /dev/shm.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Result = TypeVar("Result")
Work = Callable[[int], Any]
_WORD = 4  # bytes of a number in the queue
ORPHAN_S = 0.2  # seconds after which a worker notices that its parent is gone


@dataclass(frozen=True)
class _Worker:
    pid: int
    answers: Connection


def count_usable_cores() -> int:
    """Return the usable CPU cores; 1 if this process has threads, whose locks would stay locked in a fork."""
    try:
        threads = len(list(Path("/proc/self/task").iterdir()))
        return len(os.sched_getaffinity(0)) if threads == 1 else 1
    except (OSError, AttributeError):  # no /proc; no Linux
        return 1


def run_in_workers(
    work: Callable[[int], Result], count: int, processes: int, ended: Callable[[], None] = lambda: None
) -> dict[int, Result]:
    """Return numbers below `count` with the result of the work, except those that a killed process left undone.

    `ended` is called after each.
    """
    found: dict[int, Result] = {}
    for at, result in iterate_results(work, count, processes):
        found[at] = result
        ended()
    return found


def iterate_results(work: Callable[[int], Result], count: int, processes: int) -> Iterator[tuple[int, Result]]:
    """Yield the result of the work for each number below `count` as soon as it is there, in any order; numbers that a
    killed process left undone are missing."""
    from multiprocessing.connection import Connection, wait

    with _start_workers(work, count, processes) as workers:
        waiting = [worker.answers for worker in workers]
        while waiting:
            for answers in wait(waiting):
                assert isinstance(answers, Connection)
                try:
                    yield answers.recv()
                except (EOFError, OSError):
                    waiting.remove(answers)


@contextlib.contextmanager
def _start_workers(work: Work, count: int, processes: int) -> Iterator[list[_Worker]]:
    """Start as many workers as the system allows."""
    queue = _make_queue(count)
    workers: list[_Worker] = []
    try:
        with suppress(OSError):
            for _ in range(processes):
                workers.append(_fork_worker(work, queue))
        yield workers
    finally:
        os.close(queue)
        for worker in workers:
            _kill_worker(worker)


def _make_queue(count: int) -> int:
    """A pipe of numbers, from which each idle worker takes the next; numbers that do not fit are left undone."""
    take, put = os.pipe()
    os.set_blocking(put, False)
    os.write(put, b"".join(number.to_bytes(_WORD, "little") for number in range(count)))
    os.close(put)
    return take


def _kill_worker(worker: _Worker) -> None:
    worker.answers.close()
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(worker.pid, signal.SIGKILL)
        os.waitpid(worker.pid, 0)


def _fork_worker(work: Work, queue: int) -> _Worker:
    """Fork with Ctrl-C blocked, until the worker ignores it."""
    from multiprocessing.connection import Pipe

    parent = os.getpid()
    answers, answer = Pipe(duplex=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        pid = os.fork()
        if not pid:
            answers.close()
            _run_worker(work, queue, answer, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    answer.close()
    return _Worker(pid, answers)


def _run_worker(work: Work, queue: int, answer: Connection, parent: int) -> NoReturn:
    """Run a worker.  It ends silently: its parent does the rest and reports the error."""
    try:
        _exit_with_parent(parent)
        gc.freeze()  # keep shared pages shared
        while number := os.read(queue, _WORD):
            at = int.from_bytes(number, "little")
            answer.send((at, work(at)))
    finally:
        os._exit(0)


def _exit_with_parent(parent: int) -> None:
    """The parent ends its workers; if it is gone, they end by themselves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, lambda *_: None if os.getppid() == parent else os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, ORPHAN_S, ORPHAN_S)

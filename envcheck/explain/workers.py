"""Work that is shared among copies of this process, which end when it ends, however it ends.

Plain forks: the standard library's executors leave their processes behind when this one is killed, close standard input
in them, which a path may name, and want semaphores, for which a container may lack /dev/shm.
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
ORPHAN_S = 0.2  # after which a worker sees that its parent is gone


@dataclass(frozen=True)
class _Worker:
    pid: int
    answers: Connection


def cores() -> int:
    """That may be used; one where this process has threads: what they hold locked stays locked in a copy."""
    try:
        threads = len(list(Path("/proc/self/task").iterdir()))
        return len(os.sched_getaffinity(0)) if threads == 1 else 1
    except (OSError, AttributeError):  # no /proc; no Linux
        return 1


def shared(
    work: Callable[[int], Result], count: int, processes: int, ended: Callable[[], None] = lambda: None
) -> dict[int, Result]:
    """Numbers below `count` with what the work makes of each, but for those that a killed process left undone.

    `ended` is called after each.
    """
    from multiprocessing.connection import Connection, wait

    found: dict[int, Result] = {}
    with _started(work, count, processes) as workers:
        waiting = [worker.answers for worker in workers]
        while waiting:
            for answers in wait(waiting):
                assert isinstance(answers, Connection)
                try:
                    found.update([answers.recv()])
                except (EOFError, OSError):
                    waiting.remove(answers)
                else:
                    ended()
    return found


@contextlib.contextmanager
def _started(work: Work, count: int, processes: int) -> Iterator[list[_Worker]]:
    """As many as there may be."""
    queue = _queue(count)
    workers: list[_Worker] = []
    try:
        with suppress(OSError):
            for _ in range(processes):
                workers.append(_fork(work, queue))
        yield workers
    finally:
        os.close(queue)
        for worker in workers:
            _end(worker)


def _queue(count: int) -> int:
    """A pipe of numbers, of which each worker takes the next when it is free; what finds no room is left undone."""
    take, put = os.pipe()
    os.set_blocking(put, False)
    os.write(put, b"".join(number.to_bytes(_WORD, "little") for number in range(count)))
    os.close(put)
    return take


def _end(worker: _Worker) -> None:
    worker.answers.close()
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(worker.pid, signal.SIGKILL)
        os.waitpid(worker.pid, 0)


def _fork(work: Work, queue: int) -> _Worker:
    """Ctrl-C waits until the worker knows that it is none of its business."""
    from multiprocessing.connection import Pipe

    parent = os.getpid()
    answers, answer = Pipe(duplex=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        pid = os.fork()
        if not pid:
            answers.close()
            _work(work, queue, answer, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    answer.close()
    return _Worker(pid, answers)


def _work(work: Work, queue: int, answer: Connection, parent: int) -> NoReturn:
    """A worker's life.  It ends without a word: what it left undone is done by its parent, which says what is wrong."""
    try:
        _mind(parent)
        gc.freeze()  # what is shared stays so
        while number := os.read(queue, _WORD):
            at = int.from_bytes(number, "little")
            answer.send((at, work(at)))
    finally:
        os._exit(0)


def _mind(parent: int) -> None:
    """The parent ends its workers; when it is gone they end by themselves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, lambda *_: None if os.getppid() == parent else os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, ORPHAN_S, ORPHAN_S)

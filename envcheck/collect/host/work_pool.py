"""Jobs beside each other, in threads that wait for tools."""

import queue
import threading
from collections.abc import Callable
from typing import Any

FEW_THREADS, THREADS = 4, 32  # of Python, of which one works at a time
PATIENCE_S, LOOK_S = 0.02, 0.1


class WorkPool:
    """A few threads begin, and twice as many whenever none has ended anything for a while: those that wait for a tool
    cost nothing, but many that are quick stand in each other's way.

    Daemon threads and not an executor, which joins its own at exit: Ctrl-C must not wait for a tool that hangs.
    """

    def __init__(self) -> None:
        self._waiting = queue.Queue()  # type: queue.Queue[Callable[[], Any] | None]
        self._done = queue.Queue()  # type: queue.Queue[tuple[Any, BaseException | None]]
        self._threads = 0

    def submit(self, job: "Callable[[], Any]") -> None:
        self._waiting.put(job)

    def next_result(self) -> "Any":
        """Of the job that ends next; what it raised is raised here."""
        if not self._threads:
            self._start(FEW_THREADS)
        while True:
            may_grow = not self._waiting.empty() and self._threads < THREADS
            try:
                # by looks: a signal that comes right before one long wait is not seen until it ends
                result, error = self._done.get(timeout=PATIENCE_S if may_grow else LOOK_S)
            except queue.Empty:
                if may_grow:
                    self._start(self._threads)
                continue
            if error is not None:
                raise error
            return result

    def close(self) -> None:
        """The threads end when their jobs have."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _start(self, count: int) -> None:
        for _ in range(min(count, THREADS - self._threads, max(1, self._waiting.qsize()))):
            threading.Thread(target=self._work, daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        for job in iter(self._waiting.get, None):
            try:
                self._done.put((job(), None))
            except BaseException as err:  # for whoever waits
                self._done.put((None, err))

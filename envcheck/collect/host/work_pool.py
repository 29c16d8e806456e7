"""Runs jobs in parallel, in threads that mostly wait for tools."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

FEW_THREADS, THREADS = 4, 32  # only one Python thread runs at a time
PATIENCE_S, LOOK_S = 0.02, 0.1


class WorkPool:
    """Starts with a few threads, and doubles their number if no job has ended for a while: threads that wait for a tool
    cost nothing, but many short jobs slow each other down.

    Daemon threads instead of an executor, which joins its threads at exit: Ctrl-C must not wait for a hanging tool.
    """

    def __init__(self) -> None:
        self._waiting = queue.Queue()  # type: queue.Queue[Callable[[], Any] | None]
        self._done = queue.Queue()  # type: queue.Queue[tuple[Any, BaseException | None]]
        self._threads = 0

    def submit(self, job: "Callable[[], Any]") -> None:
        """Queue a job."""
        self._waiting.put(job)

    def next_result(self, deadline: "float | None" = None) -> "Any":
        """Return the result of the next job to end; raises what the job raised. TimeoutError at the deadline, which is
        a time of time.monotonic()."""
        if not self._threads:
            self._start_threads(FEW_THREADS)
        while True:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError
            may_grow = not self._waiting.empty() and self._threads < THREADS
            try:
                # short waits: a signal just before one long wait would only be handled at its end
                result, error = self._done.get(timeout=PATIENCE_S if may_grow else LOOK_S)
            except queue.Empty:
                if may_grow:
                    self._start_threads(self._threads)
                continue
            if error is not None:
                raise error
            return result

    def close(self) -> None:
        """Let the threads end after their jobs."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _start_threads(self, count: int) -> None:
        for _ in range(min(count, THREADS - self._threads, max(1, self._waiting.qsize()))):
            threading.Thread(target=self._run_jobs, daemon=True).start()
            self._threads += 1

    def _run_jobs(self) -> None:
        for job in iter(self._waiting.get, None):
            try:
                self._done.put((job(), None))
            except BaseException as err:  # raised in next_result
                self._done.put((None, err))

"""The worker that failed first, from logs and launcher reports, without exit codes from the process table."""

from __future__ import annotations

import pytest

from launch.run.first_failure import (
    WorkerEnd,
    add_shared_words,
    find_first_failed,
    parse_named_workers,
    select_shared_lines,
)

FULL = "[2025-07-01 12:00:05,000] [   ERROR] - OSError: [Errno 28] No space left on device: '/out/x'"
LATER = "[2025-07-01 12:00:09,000] [   ERROR] - OSError: [Errno 28] No space left on device: '/out/x'"
SOCKET = "[2025-07-01 12:00:01,000] EI0006: [PID: 9] Getting socket times out. Reason: no answer"
PADDLE = "Container rank 3 status failed cmd ['python3'] env {} code -9 log log/workerlog.3"
TORCH = "E0701 12:00:00.1 881 api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 4242) of binary: python3"
SUMMARY = """Root Cause (first observed failure):
[0]:
  time      : 2025-07-01_12:00:00
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 9)"""


@pytest.mark.parametrize(
    ("workers", "launcher", "expected"),
    [
        # the log that was written last failed first: its lines say so
        ([WorkerEnd(0, (LATER,), 1), WorkerEnd(1, (FULL,), 9)], "", (1, None)),
        # a time-out came first by the clock, and is a consequence all the same
        ([WorkerEnd(0, (SOCKET,), 1), WorkerEnd(1, (FULL,), 9)], "", (1, None)),
        # only time-outs: the earliest
        ([WorkerEnd(0, (SOCKET,), 5), WorkerEnd(1, (SOCKET.replace(":01,", ":03,"),), 3)], "", (0, None)),
        # ended by a launcher that hands on SIGTERM as a shell would, or as a byte
        ([WorkerEnd(0, (), 1, 1.0, 143), WorkerEnd(1, (), 1, 2.0, 241), WorkerEnd(2, ("x",), 1, 3.0, 1)], "", (2, 1)),
        # killed is killed, whatever its last words were of
        ([WorkerEnd(0, (FULL,), 1, 4.0, 1), WorkerEnd(1, (SOCKET,), 1, 2.0, -9)], "", (1, -9)),
        # an abort over a lost peer follows
        ([WorkerEnd(0, (SOCKET,), 1, 2.0, -6), WorkerEnd(1, ("ValueError: mine",), 1, 2.5, 1)], "", (1, 1)),
        # the launcher saw what nobody else did
        ([WorkerEnd(2, ("step",), 1), WorkerEnd(3, ("step",), 1)], PADDLE, (3, -9)),
        ([WorkerEnd(2, ("step",), 1), WorkerEnd(3, ("step",), 1)], TORCH, (2, -9)),
    ],
)
def test_first_failed(workers: list[WorkerEnd], launcher: str, expected: tuple[int, int | None]) -> None:
    """Causes precede consequences; then the time of the process or of the log lines decides."""
    failed = find_first_failed(workers, launcher)

    assert failed is not None
    assert (failed.rank, failed.code) == expected


@pytest.mark.parametrize(
    ("words", "expected"), [(PADDLE, ((3, -9),)), (TORCH, ((2, -9),)), (SUMMARY, ((1, 1),)), ("", ())]
)
def test_named(words: str, expected: tuple[tuple[int, int], ...]) -> None:
    """The report formats of all launchers are parsed."""
    assert parse_named_workers(words) == expected


def test_lines_in_the_launchers_log() -> None:
    """On the second of two nodes rank 3 is worker 1; workers with their own log keep its lines."""
    text = (
        "[rank2]: Traceback\nother words\n[rank3]: ValueError: mine\n[rank2]: RuntimeError: Connection reset by peer\n"
    )
    workers = (WorkerEnd(0, died_s=2.0, code=1), WorkerEnd(1, died_s=1.0, code=1))
    kept = WorkerEnd(0, ("its own",), log="workerlog.0")

    assert [w.lines for w in add_shared_words(workers, text)] == [
        ("Traceback", "RuntimeError: Connection reset by peer"),
        ("ValueError: mine",),
    ]
    assert add_shared_words((kept,), text) == (kept,)
    assert add_shared_words((), text) == ()


def test_only_lost_connections() -> None:
    """If all workers report lost connections, none is the cause."""
    text = "[rank0]: RuntimeError: Connection closed by peer [10.0.0.2]:4"

    first = find_first_failed((WorkerEnd(0, died_s=2.0, code=1), WorkerEnd(1, died_s=3.0, code=-15)), text)

    assert first is not None
    assert (first.rank, first.follows) == (0, True)
    alone = find_first_failed((WorkerEnd(0, ("ValueError: mine",), died_s=2.0, code=1),), "")
    assert alone is not None
    assert not alone.follows


def test_lines_without_a_rank() -> None:
    """Without ranks, the lines of the shared log before the launcher's report are used and marked as shared."""
    text = (
        "{'step': 1}\nTraceback (most recent call last):\nValueError: mine\n[rank0]: RuntimeError: Connection reset\n"
        "W0701 12:00:00.1 881 api.py:900] Sending process 7 closing signal SIGTERM\n"
        "E0701 12:00:00.1 881 api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 4) of binary: python3\n"
        "Traceback (most recent call last):\ntorch.distributed.elastic.ChildFailedError: x\n"
    )
    failed = find_first_failed([WorkerEnd(0, (), 1, 3.0, -15), WorkerEnd(1, (), 1, 2.0, 1)], text)

    assert failed
    assert (failed.rank, failed.shared) == (1, True)
    assert failed.lines == ("Traceback (most recent call last):", "ValueError: mine")
    assert select_shared_lines("", 0, 2) == ()
    assert select_shared_lines("\n".join(f"step {n}" for n in range(50)), 0, 2) == tuple(
        f"step {n}" for n in range(40, 50)
    )

"""The kernel's own log, which alone says that a process was killed because memory ran out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from envcheck.core import process
from envcheck.explain import times

TIMEOUT_S = 5.0
LIMIT = 2000  # lines
_ASKS = (
    ("dmesg", "--time-format", "iso"),
    ("journalctl", "-k", "-q", "--no-pager", "-n", str(LIMIT), "-o", "short-iso"),
)
_TELLING = re.compile(
    r"out of memory|oom[-_]kill|killed process|NVRM: Xid|segfault at|I/O error|davinci|iluvatar", re.I
)
Run = Callable[..., process.CommandResult]


def lines(since: float | None = None, run: Run = process.run) -> tuple[str, ...] | None:
    """What it says of memory, cards and crashes, since then (seconds, UTC); None when this user may not read it."""
    for argv in _ASKS:
        done = run(argv, timeout_s=TIMEOUT_S)
        if done.status == 0 and done.out.strip():
            told = [line for line in done.out.splitlines()[-LIMIT:] if _TELLING.search(line)]
            return tuple(
                line for line in told if since is None or (when := times.of(line)) is None or when >= since - 1
            )
    return None


def killed(told: Sequence[str], pids: Sequence[int] = ()) -> tuple[str, ...]:
    """Lines that name a process which the kernel killed for want of memory: one of these, or any."""
    found = [(int(m[1]), line) for line in told if (m := re.search(r"[Kk]illed process (\d{1,9})", line))]
    return tuple(line for pid, line in found if not pids or pid in pids)

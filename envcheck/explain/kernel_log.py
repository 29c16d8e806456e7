"""The kernel log, which alone shows that a process was killed because memory ran out."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.core import process
from envcheck.explain import timestamps

TIMEOUT_S = 5.0
LIMIT = 2000  # lines
_ASKS = (
    ("dmesg", "--time-format", "iso"),
    ("journalctl", "-k", "-q", "--no-pager", "-n", str(LIMIT), "-o", "short-iso"),
)
_TELLING = re.compile(
    r"out of memory|oom[-_]kill|killed process|NVRM: Xid|segfault at|I/O error|davinci|iluvatar|kunlun|\bKLRM:", re.I
)
Run = Callable[..., process.CommandResult]


def read_lines(since: float | None = None, run: Run = process.run_command) -> tuple[str, ...] | None:
    """Return its lines about memory, devices and crashes since then (seconds, UTC); None without permission."""
    for argv in _ASKS:
        done = run(argv, timeout_s=TIMEOUT_S)
        if done.status == 0 and done.out.strip():
            told = [line for line in done.out.splitlines()[-LIMIT:] if _TELLING.search(line)]
            return tuple(
                line
                for line in told
                if since is None or (when := timestamps.parse_timestamp(line)) is None or when >= since - 1
            )
    return None

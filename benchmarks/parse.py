"""What `envcheck parse` costs on long texts, beside `grep -c` of the same file: seconds, MB/s, and peak memory.

python -m benchmarks.parse [MB, else 50]
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

DATA = Path(__file__).parent.parent / "tests" / "data"
TABLE = (DATA / "nvidia_smi" / "table" / "a100x8_535.txt").read_text(encoding="utf-8")
INFO = (DATA / "npu_smi" / "info" / "310p_duo_no_hbm.txt").read_text(encoding="utf-8")
LOG = "2026-11-26 12:00:00,123 - INFO - step 10, loss: 1.234, lr: 1e-5, memory 30GB of device 0\n"
KINDS = {
    "a table behind a log": lambda size: LOG * (size // len(LOG)) + TABLE,
    "prose": lambda size: "The quick brown fox jumps over the lazy dog, and the cards sleep.\n" * (size // 66),
    "tables of other tools": lambda size: (
        "| id | value | x |\n|----|------|----|\n| 1 | foo: bar | 3 |\n" * (size // 69)
    ),
    "its own tables": lambda size: TABLE * (size // len(TABLE)),
    "a watch log": lambda size: make_watch_log(size),
    "tables of two tools": lambda size: (TABLE + INFO) * (size // len(TABLE + INFO)),
    "one line": lambda size: "x" * size,
}


def make_watch_log(size: int) -> str:
    """Return tables whose temperatures, powers and memories differ, so that no cell is read from a cache."""
    drawn = random.Random(0)
    values = re.compile(r"(?<= )\d{2}(?=[CW])|(?<= )\d{1,5}(?=MiB)")
    return "".join(
        values.sub(lambda found: str(drawn.randrange(10 ** len(found[0]))).rjust(len(found[0])), TABLE)
        for _ in range(size // len(TABLE))
    )


def measure_kinds(size: int) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield a row for each kind of text of this many characters."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text"
        for name, make in KINDS.items():
            file.write_text(make(size), encoding="utf-8")
            took, peak = run_program([sys.executable, "-m", "envcheck", "parse", str(file)])
            grep, _peak = run_program(["grep", "-c", "NVIDIA", str(file)])
            yield name, f"{took:.1f} s", f"{size / took / 1e6:.1f} MB/s", f"{peak >> 10} MiB", f"{grep:.2f} s"


def run_program(argv: list[str]) -> tuple[float, int]:
    """Return the seconds that a program took, and its peak memory in KiB."""
    began = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _pid, _status, usage = os.wait4(child.pid, 0)
    return time.monotonic() - began, usage.ru_maxrss


if __name__ == "__main__":
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rows = list(measure_kinds(megabytes * 1_000_000))
    print(tabulate(rows, headers=(f"{megabytes} MB", "envcheck parse", "(goal 5)", "(goal 250)", "grep -c")))

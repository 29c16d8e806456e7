"""What `envcheck parse` costs on long texts, beside `grep -c` of the same file: seconds, MB/s, and peak memory.

python -m benchmarks.parse [MB ..., else 2 and 10] [KIND ..., else all]
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
TABLE, QUERY, XML, INFO, XPU_TABLE, TYPES, PORT, MACHINE, LOST = (
    (DATA / name).read_text(encoding="utf-8")
    for name in (
        "nvidia_smi/table/a100x8_535.txt",
        "nvidia_smi/query_text/a100_mig_525.txt",
        "nvidia_smi/xml/a100x2_v12.xml",
        "npu_smi/info/310p_duo_no_hbm.txt",
        "xpu_smi/table/p800_vf_processes.txt",
        "npu_smi/common/two_chips_and_mcu.txt",
        "npu_smi/hccn/link_and_lldp.txt",
        "xpu_smi/machine/p800_two.txt",
        "nvidia_smi/error/lost_then_none.txt",
    )
)
ROWS = "".join(f"{index}, NVIDIA A100-SXM4-80GB, {index * 137} MiB, {30 + index}\n" for index in range(8))
LOG = "2026-11-26 12:00:00,123 - INFO - step 10, loss: 1.234, lr: 1e-5, memory 30GB of device 0\n"
PROSE = "The quick brown fox jumps over the lazy dog, and the cards sleep.\n"
KINDS = {
    "a table behind a log": lambda size: LOG * (size // len(LOG)) + TABLE,
    "prose": lambda size: PROSE * (size // len(PROSE)),
    "source code": lambda size: repeat_sources(size),
    "short lines": lambda size: draw_lines(size, 5, 30),
    "lines of 1 to 5 characters": lambda size: draw_lines(size, 1, 5),
    "blank lines": lambda size: "\n" * size,
    "tables of other tools": lambda size: (
        "| id | value | x |\n|----|------|----|\n| 1 | foo: bar | 3 |\n" * (size // 69)
    ),
    "its own tables": lambda size: TABLE * (size // len(TABLE)),
    "distinct tables": lambda size: draw_tables(size, TABLE),
    "npu tables": lambda size: draw_tables(size, INFO),
    "xpu tables": lambda size: draw_tables(size, XPU_TABLE),
    "answers of -q": lambda size: draw_tables(size, QUERY),
    "XML": lambda size: draw_tables(size, XML),
    "rows of CSV": lambda size: "index, name, memory.used [MiB], temperature.gpu\n" + draw_tables(size, ROWS),
    "tables of two tools": lambda size: (TABLE + INFO) * (size // len(TABLE + INFO)),
    "answers of -t": lambda size: draw_tables(size, TYPES),
    "answers of hccn_tool": lambda size: draw_tables(size, PORT),
    "lines of -m": lambda size: draw_tables(size, MACHINE),
    "messages": lambda size: LOST * (size // len(LOST)),
    "commands": lambda size: "".join(f"[root@node7 ~]# nvidia-smi -i {at:07}\n" for at in range(size // 37)),
    "tables of two hosts": lambda size: "".join(
        f"node1: {line}\nnode2: {line}\n" for line in draw_tables(size * 9 // 20, TABLE).splitlines()
    ),
    "coloured tables": lambda size: draw_tables(size * 9 // 10, TABLE).replace("\n", "\x1b[0m\n\x1b[32m"),
    "numbers without a header": lambda size: draw_tables(size, ROWS),
    "one line": lambda size: "x" * size,
    "rules": lambda size: "=====\nabc\n---\n" * (size // 14),
    "rows of a query": lambda size: draw_rows(size, QUERIED),
    "rows of 200 columns": lambda size: draw_rows(size, ", ".join("___" for _ in range(200))),
    "answers of -L": lambda size: draw_rows(
        size, "GPU _: NVIDIA A100-SXM4-80GB (UUID: GPU-________-0000-1111-2222-____________)"
    ),
    "answers of -l": lambda size: draw_rows(size, "NPU ID : _\nProduct Name : IT21\nChip Count : 1\n"),
    "commands and answers": lambda size: draw_rows(size, "[root@node_ ~]# nvidia-smi -i ______\nNo devices were found"),
    "messages of hosts": lambda size: draw_rows(
        size, "node__: GPU _: NVIDIA A10 (UUID: GPU-________-0000)\nnode__: NPU ID : _"
    ),
    "nested XML": lambda size: "<nvidia_smi_log>\n" + "<a>\n" * (size // 9) + "</a>\n" * (size // 9),
    "characters of all kinds": lambda size: "".join(
        random.Random(0).choices([*map(chr, range(32, 0x3000)), "\n"], k=size)
    ),
}
QUERIED = (
    "_, NVIDIA A100-SXM4-80GB, GPU-________-0000-1111-2222-____________, 535.104.05, __, __ %, 81920 MiB, ____ MiB"
)
_VALUES = re.compile(r"(?<= )\d{2,3}(?= ?[CW%]\b| |$)|(?<=[ >])\d{1,5}(?= ?MiB)", re.MULTILINE)


def draw_tables(size: int, table: str) -> str:
    """Return tables whose temperatures, powers and memories differ, so that no cell is read from a cache."""
    drawn = random.Random(0)
    return "".join(
        _VALUES.sub(lambda found: str(drawn.randrange(10 ** len(found[0]))).rjust(len(found[0])), table)
        for _ in range(size // len(table))
    )


def draw_lines(size: int, least: int, most: int) -> str:
    """Return lines of words of these lengths."""
    drawn = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789 .:"
    lines: list[str] = []
    while size > 0:
        lines.append("".join(drawn.choices(letters, k=drawn.randint(least, most))))
        size -= len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def draw_rows(size: int, row: str) -> str:
    """Return copies of these lines, with a drawn digit for each underscore."""
    drawn = random.Random(0)
    rows = (re.sub("_", lambda _: str(drawn.randrange(10)), row) for _ in range(size // (len(row) + 1)))
    return "\n".join(rows) + "\n"


def repeat_sources(size: int) -> str:
    """Return the lines of this repository's sources, again and again; mixed, as its parts differ."""
    files = sorted((ROOT / "envcheck").rglob("*.py"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines(keepends=True)]
    random.Random(0).shuffle(lines)
    source = "".join(lines)
    return (source * (size // len(source) + 1))[:size]


def measure_kinds(size: int, names: Sequence[str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield a row for each kind of text of this many characters."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text"
        file.touch()
        program = [sys.executable, "-m", "envcheck", "parse", str(file)]
        compiled = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        compiled["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"  # as an installed program is
        run_program(program, compiled)
        for name in names:
            write = multiprocessing.Process(target=write_text, args=(file, name, size))  # its memory is not a parser's
            write.start()
            write.join()
            took, peak = run_program(program, compiled)
            grep, _peak = run_program(["grep", "-c", "NVIDIA", str(file)], compiled)
            yield name, f"{took:.2f} s", f"{size / took / 1e6:.1f} MB/s", f"{peak >> 10} MiB", f"{grep:.2f} s"


def write_text(file: Path, name: str, size: int) -> None:
    file.write_text(KINDS[name](size), encoding="utf-8")


def run_program(argv: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Return the seconds of CPU time that a program took, and its peak memory in KiB."""
    child = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _pid, _status, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [2, 10]
    chosen = [word for word in sys.argv[1:] if not word.isdigit()] or list(KINDS)
    for megabytes in sizes:
        rows = list(measure_kinds(megabytes * 1_000_000, chosen))
        print(tabulate(rows, headers=(f"{megabytes} MB", "envcheck parse", "(goal 5)", "(goal 250)", "grep -c")))

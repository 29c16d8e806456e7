"""Print how fast envcheck is, beside what a user would run instead.  `python -m benchmarks.run [--only NAME]...`

Each row is measured in this run: whole processes where a user starts one (median of RUNS), CPU seconds elsewhere.
Other tools are timed only where this Python or the provisioned environment has them; nothing is installed here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tabulate import tabulate

from envcheck.core import paths

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests/data"
RUNS = 11
ENVCHECK = (sys.executable, "-m", "envcheck")
SCRIPT = (str(Path(sys.executable).parent / "envcheck"),)
BOX = "atlas-200t-a2-box16"

Row = tuple[str, str, str, str]


def wall_s(argv: Sequence[str], runs: int = RUNS) -> float:
    """Median wall time of the whole process."""
    return statistics.median(_once(argv) for _ in range(runs))


# With the first of these set, an editable install is compiled again at every start, which no user's is.
SETTINGS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")


def _once(argv: Sequence[str]) -> float:
    env = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    began = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def start_up() -> Iterator[Row]:
    """--version above a bare interpreter."""
    bare, ours = wall_s((sys.executable, "-c", "pass")), wall_s((*SCRIPT, "--version"))
    yield "python -c pass", f"{bare * 1000:.0f} ms", "", ""
    yield "envcheck --version", f"{ours * 1000:.0f} ms", f"{(ours - bare) * 1000:+.0f} ms", "at most +60 ms"


def doctor() -> Iterator[Row]:
    """doctor on a simulated box, with quick tools and with one that takes two seconds."""
    for slow_s in (0.0, 2.0):
        told = subprocess.run(
            (*ENVCHECK, "simulate", BOX, "--", sys.executable, __file__, "--time-doctor", str(slow_s)),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        slowest, took = map(float, told.stdout.split()[-2:])
        what = "quick tools" if not slow_s else f"npu-smi info takes {slow_s:.0f} s"
        yield f"doctor on {BOX}, {what}", f"{took:.3f} s", f"{took - slowest:+.3f} s", "slowest tool + 0.3 s"


def time_doctor(slow_s: float) -> None:
    """Inside the simulated machine: make its npu-smi slow, then print doctor's median wall time."""
    tool = Path(os.environ["ENVCHECK_SYSROOT"]) / "bin/npu-smi"
    if slow_s:
        real = tool.rename(tool.with_name("npu-smi.real"))
        tool.write_text(f'#!/bin/sh\n[ "$*" = info ] && sleep {slow_s}\nexec {real} "$@"\n')
        tool.chmod(0o755)
    print(wall_s((str(tool), "info"), 3), wall_s((*SCRIPT, "doctor", "--device", "npu")))


def parsing() -> Iterator[Row]:
    """Megabytes a second through each parser, over our own texts."""
    from probes.ascend import npu_smi
    from probes.smi import ixsmi, nvidia_smi

    for module, folder in ((npu_smi, "npu_smi"), (ixsmi, "ixsmi"), (nvidia_smi, "nvidia_smi")):
        texts = [
            p.read_text()
            for p in (DATA / folder).rglob("*.*")
            if p.suffix in {".txt", ".xml", ".csv"} and p.name != "README.md"
        ]
        began, read = time.process_time(), 0
        while time.process_time() - began < 2:
            for text in texts:
                module.parse(text)
                read += len(text.encode())
        rate = read / (time.process_time() - began) / 1e6
        yield f"parse {module.TOOL} ({len(texts)} texts)", f"{rate:.1f} MB/s", "", "at least 5 MB/s"


def junk() -> Iterator[Row]:
    """Ten megabytes that are no output of any tool."""
    from probes.ascend import npu_smi
    from probes.smi import ixsmi, nvidia_smi

    text = ("| 0     910B3 " + "x|+-" * 20 + "\n") * (10_000_000 // 94)
    for module in (npu_smi, ixsmi, nvidia_smi):
        began = time.process_time()
        module.parse(text)
        yield f"10 MB of junk, {module.TOOL}", f"{time.process_time() - began:.1f} s", "", "seconds"


HOSTS = 10_000


def fleet() -> Iterator[Row]:
    """Snapshots of 16-card hosts, loaded and judged on one core.

    All alike; with figures of their own, as hosts have (the vendor's tool, the host); and with every text different.
    """
    from envcheck import checks
    from envcheck.collect import snapshot
    from envcheck.collect.fact_reader import read_facts

    with tempfile.TemporaryDirectory() as folder:
        first, file = Path(folder) / "first.json", Path(folder) / "host.json"
        argv = (*ENVCHECK, "simulate", BOX, "--", *SCRIPT, "snapshot", "-o", str(first))
        subprocess.run(argv, check=True, capture_output=True)
        for what, differs in (("alike", ()), ("own figures", ("run npu-smi", "ask ")), ("no two texts alike", ("",))):
            findings, took = 0, 0.0
            for text in _hosts(json.loads(first.read_text()), differs):
                file.write_text(text)
                began = time.process_time()
                answers, device = snapshot.load_snapshot(file)
                findings += len(checks.run_checks(read_facts(answers, device)))
                took += time.process_time() - began
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield f"{HOSTS:,} hosts, {what} ({findings:,} findings)", f"{took:.1f} s", f"{rss:.0f} MiB", "60 s, 500 MB"


def _hosts(host: dict[str, Any], differs: tuple[str, ...]) -> Iterator[str]:
    """Texts whose keys begin as `differs` says have figures of their own, and end in another number of blanks each.

    No cache sees through the blanks; the figures are what cards and hosts do not share.
    """
    for number in range(HOSTS):
        answers = host["answers"]
        blanks = " " * (number % 1000) + "\n" * (number // 1000 + 1)
        told = {
            k: {**a, "out": _own(a["out"], number) + blanks} if k.startswith(differs) else a for k, a in answers.items()
        }
        yield json.dumps({**host, "answers": told})


# What stands before a figure, the least that it may be, and how many may follow.
OWN = (
    (re.compile(r"(Serial Number +: )\d+"), 10**10, 10**9),
    (re.compile(r"(\| OK +\| )\d+"), 70, 29),  # W
    (re.compile(r"(\| OK +\| \d+\.\d +)\d+"), 40, 20),  # C
    (re.compile(r"( )\d+(?= / 65536)"), 3300, 99),  # MiB in use
    (re.compile(r"((?:HBM|Ctrlcpu) Usage Rate\(%\) +: )\d+"), 1, 9),
    (re.compile(r"(Single Bit Aggregate Total Err Cnt +: )\d+"), 0, 50),
)


def _own(text: str, number: int) -> str:
    for pattern, least, span in OWN:
        text = pattern.sub(partial(_figure, number, least, span), text)
    return text


def _figure(number: int, least: int, span: int, found: re.Match[str]) -> str:
    return f"{found[1]}{least + (number * 131 + found.start()) % span}"


PROVISIONED = str(paths.environment_folder("tiny-cpu") / "bin/python")
OTHERS = (
    ("gpustat", ("gpustat",)),
    ("python -m torch.utils.collect_env", (sys.executable, "-m", "torch.utils.collect_env")),
    ("paddle.utils.run_check()", (PROVISIONED, "-c", "import paddle; paddle.utils.run_check()")),
)


def beside() -> Iterator[Row]:
    """A whole doctor on this machine, and the tools of the same kind."""
    yield "envcheck doctor, this machine", f"{wall_s((*SCRIPT, 'doctor'), 5):.2f} s", "", ""
    for name, argv in OTHERS:
        program = argv[0] if "/" in argv[0] else str(Path(sys.executable).parent / argv[0])
        tried = subprocess.run((program, *argv[1:]), capture_output=True, text=True) if Path(program).exists() else None
        runs = tried and "No module named" not in tried.stderr
        yield name, f"{wall_s((program, *argv[1:]), 5):.2f} s" if runs else "not installed here", "", ""


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "start-up": start_up, "doctor": doctor, "parsing": parsing, "junk": junk, "fleet": fleet, "beside": beside,
}  # fmt: skip


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--only", action="append", choices=PARTS)
    ask.add_argument("--time-doctor", type=float, help=argparse.SUPPRESS)
    args = ask.parse_args()
    if args.time_doctor is not None:
        time_doctor(args.time_doctor)
        return
    bare = wall_s((sys.executable, "-c", "pass"))  # what a machine is worth today
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, bare Python {1000 * bare:.0f} ms, "
        f"median of {RUNS} (5 for slow ones)"
    )
    rows = [row for name in args.only or PARTS for row in PARTS[name]()]
    print(tabulate(rows, headers=("what", "took", "difference or memory", "goal")))


if __name__ == "__main__":
    main()

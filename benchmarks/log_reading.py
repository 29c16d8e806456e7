"""What staying with a run costs: the processor and memory of the watcher over a day, in which its log grows by 100 MB.

python -m benchmarks.log_reading [--megabytes 100] [--seconds 20]

Two parts, both of the real Watch, Guard, Sampler and Teller, over sixteen processes that sleep and their sixteen logs.
First the whole log at once: CPU seconds for all its lines.  Then so many seconds of watching as `train` does it, while
every half second a line comes: CPU seconds of a second, times a day.  The vendor's tool is a simulated npu-smi on a
machine of sixteen cards; what its own process takes counts apart, as real tools take what they take.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from envcheck.collect import answer_parsers, answer_sources
from envcheck.simulate import machine_file, simulated_run
from envcheck.vendors import VENDORS
from launch.run.launcher import LOOK_EVERY_S
from launch.run.process_tree import ProcessTree
from launch.run.watch import ProgressLine, RunWatch
from launch.watching import stop_rules
from launch.watching.card_sampler import CardSampler
from launch.watching.monitor import Monitor

DAY_S, RANKS = 86_400, 16
LINE = (
    "[2025-11-21 10:00:00,123] [    INFO] - loss: {loss:.6f}, learning_rate: 2e-06, global_step: {step}, "
    "current_memory_allocated: 7.5, current_memory_reserved: 7.75, max_memory_allocated: 7.5, "
    "max_memory_reserved: 7.75, interval_runtime: 1.15, interval_samples_per_second: 0.8682, "
    "interval_steps_per_second: 0.8682, epoch: 0.0\n"
)


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--megabytes", type=int, default=100)
    asked.add_argument("--seconds", type=float, default=20.0)
    options = asked.parse_args()
    sleepers = [subprocess.Popen(["sleep", "3600"], env={**os.environ, "RANK": str(n)}) for n in range(RANKS)]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            simulated_run.write_machine_folder(machine_file.load_machine("atlas-800t-a3"), None) as there,
        ):
            measure(Path(folder), there, options.megabytes, options.seconds)
    finally:
        for sleeper in sleepers:
            sleeper.kill()


def measure(folder: Path, there: Path, megabytes: int, seconds: float) -> None:
    before_mib = memory_mib()
    watch, guard = watcher(folder, there)
    steps = write(folder / "workerlog.0", megabytes)
    began = time.process_time()
    log = folder / "workerlog.0"
    while not watch.tails or watch.tails[0, str(log)].at < log.stat().st_size:
        watch.update_state()
    whole = time.process_time() - began
    print(f"{megabytes} MB, {steps} steps           {whole:8.1f} CPU s")
    watch.began -= 3600  # the first minute is looked at more closely
    each = living(watch, guard, log, steps, seconds)
    share = (whole + each * DAY_S) / DAY_S
    print(f"a second of watching       {each * 1e3:8.2f} CPU ms, {RANKS} workers, 16 cards looked at")
    print(f"of one core over a day     {share:8.2%}    goal 1 %")
    print(f"memory of the watcher      {memory_mib() - before_mib:8.1f} MiB beside its libraries' {before_mib:.0f}")
    print(f"memory in all              {memory_mib():8.1f} MiB    goal 100")


def watcher(folder: Path, there: Path) -> tuple[RunWatch, Monitor]:
    for rank in range(1, RANKS):
        (folder / f"workerlog.{rank}").write_text("ready\n")
    look, vendor = answer_sources.simulated_machine(there), VENDORS["npu"]
    before = answer_parsers.parse_answer(vendor, look(vendor.devices[0])).devices
    watch = RunWatch(folder, ProcessTree(os.getpid()), ProgressLine(io.StringIO(), of=10_000_000))
    return watch, Monitor(stop_rules.list_active_rules(("cpu",)), CardSampler(look, vendor, before), folder, "")


def living(watch: RunWatch, guard: Monitor, log: Path, step: int, seconds: float) -> float:
    """CPU seconds of one second."""
    guard.start_sampling()
    began, cpu, until = time.monotonic(), time.process_time(), time.monotonic() + seconds
    written = began
    while time.monotonic() < until:
        if time.monotonic() - written > 0.5:
            written, step = time.monotonic(), step + 1
            with log.open("a") as file:
                file.write(LINE.format(loss=2.5, step=step))
        watch.update_state()
        if guard.must_end_run(watch):
            raise SystemExit(f"ended by a rule: {guard.stopped}")
        watch.family.wait_for_death(LOOK_EVERY_S)
    guard.close()
    return (time.process_time() - cpu) / (time.monotonic() - began)


def write(path: Path, megabytes: int) -> int:
    step, size = 0, megabytes * 1_000_000
    with path.open("w") as file:
        while file.tell() < size:
            file.write("".join(LINE.format(loss=3 - step % 7 / 10, step=step + n) for n in range(1000)))
            step += 1000
    return step


def memory_mib() -> float:
    """The most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

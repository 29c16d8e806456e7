"""What planning costs: one plan, the command from the shell, a search over 300B on 1,024 cards, a table of 705 rows.

python -m benchmarks.plan_speed
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from launch import planner
from launch.planner import advice, job_table, machines, resolve, search

ARGV = ("plan", "--model", "21b", "--method", "lora", "--device", "iluvatar", "--cards", "16", "--memory-gib", "32",
        "--tp", "4", "--pp", "4")  # fmt: skip
ROW = {"id": "0", "framework": "ERNIEKit", "model": "ernie-4.5-300b-a47b", "method": "full", "cards": "128",
       "device": "Ascend-910B", "device_mem_gib": "64", "tp": "8", "pp": "16", "sharding": "paddle-stage1",
       "offload": "optimizer", "seq_len": "8192", "micro_batch": "1", "recompute": "full"}  # fmt: skip


def best(what: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of `times`."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        what()
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    machine = machines.build_described_machine("npu", 1024, 64)
    job = resolve.build_planned_job(machine, "300b", "sft", {"tp": 8, "pp": 16})
    small = replace(job, layout=replace(job.layout, cards=128))
    hopeless = resolve.build_planned_job(
        machines.build_described_machine("npu", 1024, 8), "300b", "sft", {"micro_batch": 8, "recompute": "none"}
    )
    shell = [sys.executable, "-m", "envcheck", *ARGV]
    rows = (
        ("one plan, 300B on 128 cards", "5 ms", best(lambda: planner.plan(None, small), 20)),
        ("envcheck plan from the shell", "150 ms", best(lambda: subprocess.run(shell, capture_output=True), 5)),
        ("search, 300B on 1,024 cards", "1 s", best(lambda: search.search_layouts(job), 3)),
        ("advice where nothing fits, 300B", "0.5 s", best(lambda: advice.find_fitting_changes(hopeless), 3)),
        ("705 rows", "5 s", best(lambda: [job_table.predict_row(ROW) for _ in range(705)], 1)),
    )
    for name, goal, took in rows:
        print(f"{name:32}{took * 1e3:10.1f} ms   goal {goal}")


if __name__ == "__main__":
    main()

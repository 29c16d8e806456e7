"""What `envcheck train` costs before the launcher starts: the whole command up to its closed gates, per system.

python -m benchmarks.train_start        goal: at most a second more than the slowest tool that it asks

On simulated machines whose vendor's tool answers at once, and with one that takes two seconds.  A second table: the
looks at a model of 120 shards and at data of 1 GB, which the gates read in part.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch.programs import place_probe

ENVCHECK = (sys.executable, "-m", "envcheck")
SYSTEMS = (
    ("300b", "lora", "npu", "atlas-200t-a2-box16", "npu-smi"),
    ("21b", "lora", "iluvatar", "bi-v150x8", "ixsmi"),
    ("21b", "lora", "nvidia", "h200x8", "nvidia-smi"),
    ("0.3b", "lora", "npu", "atlas-800t-a2", "npu-smi"),
)
RUNS = 5


def train(model: str, method: str, device: str, folder: Path) -> tuple[str, ...]:
    return (*ENVCHECK, "train", "--model", model, "--method", method, "--device", device, "--runs", str(folder))


def inside(slow_s: float, tool: str, model: str, method: str, device: str) -> None:
    """In the simulated machine: make its tool slow, then print the slowest question's time and train's."""
    program = Path(os.environ["ENVCHECK_SYSROOT"]) / "bin" / tool
    if slow_s:
        real = program.rename(program.with_name(f"{tool}.real"))
        program.write_text(f'#!/bin/sh\nsleep {slow_s}\nexec {real} "$@"\n')
        program.chmod(0o755)
    with tempfile.TemporaryDirectory() as folder:
        argv = train(model, method, device, Path(folder))
        print(_median((str(program),), 1), _median((*ENVCHECK, "doctor", "--device", device)), _median(argv))


def _median(argv: tuple[str, ...], runs: int = RUNS) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        times.append(time.perf_counter() - began)
        assert done.returncode < 2 or "doctor" in argv, done.stderr  # 1: the gates are closed, after all were walked
    return statistics.median(times)


def commands() -> None:
    print(f"{'system':<42}{'tool':>8}{'doctor':>9}{'train':>8}{'above':>8}")
    for model, method, device, machine, tool in SYSTEMS:
        for slow_s in (0.0, 2.0):
            words = (sys.executable, __file__, str(slow_s), tool, model, method, device)
            told = subprocess.run(
                (*ENVCHECK, "simulate", machine, "--", *words), stdout=subprocess.PIPE, text=True, check=True
            )
            one, doctor, took = map(float, told.stdout.split()[-3:])
            # With a slow tool the steps that follow from its answer are slow, too: doctor's time is the slowest probe.
            slowest = max(one, doctor if slow_s else one)
            name = f"{model} {method} on {machine}{', slow tool' if slow_s else ''}"
            print(f"{name:<42}{one:>7.2f}s{doctor:>8.2f}s{took:>7.2f}s{took - slowest:>+7.2f}s", flush=True)


def looks() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _model(place / "m", 120, 400)
        with (place / "d.jsonl").open("wb") as file:
            for _ in range(1024):
                file.write(b'{"src": ["a question of some length"], "tgt": ["an answer"]}\n' * (1 << 14))
        asked = {"workdir": folder, "runs": folder, "paths": []}
        for name, more in (
            ("120 shards of 400 tensors", {"models": ["m"]}),
            ("1 GB of JSON lines", {"data": ["d.jsonl"]}),
        ):
            began = time.perf_counter()
            place_probe.probe_place({**asked, **more})
            print(f"{name:<42}{time.perf_counter() - began:.3f} s")


def _model(folder: Path, shards: int, tensors: int) -> None:
    """Sparse shards of 1 GiB."""
    folder.mkdir()
    each, placed = (1 << 30) // tensors // 2 * 2, {}
    for number in range(1, shards + 1):
        name = f"model-{number:05}-of-{shards:05}.safetensors"
        names = [f"layers.{number}.w{n}" for n in range(tensors)]
        table = {
            key: {"dtype": "BF16", "shape": [each // 2], "data_offsets": [n * each, (n + 1) * each]}
            for n, key in enumerate(names)
        }
        raw = json.dumps(table).encode()
        with (folder / name).open("wb") as file:
            file.write(len(raw).to_bytes(8, "little") + raw)
            file.truncate(8 + len(raw) + each * tensors)
        placed |= dict.fromkeys(names, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        inside(float(sys.argv[1]), *sys.argv[2:])
    else:
        commands()
        looks()

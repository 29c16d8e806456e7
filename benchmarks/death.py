"""How long it takes from a worker's death to its name and its cause on the screen, and to envcheck's end.

python -m benchmarks.death [RUNS]        goal: under 3 s

The tiny model in two real processes under paddle's launcher; rank 1 is killed in the middle of its steps.  It wants the
environment of `envcheck provision --device cpu`.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch.run import process_tree

TRAIN = ("train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--steps", "100000")
FOUND = "failed first"


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    told, ended = zip(*(_once() for _ in range(runs)), strict=True)
    for name, times in (("to the worker's name", told), ("to envcheck's end", ended)):
        print(f"{name:<24}median {statistics.median(times):.2f} s, most {max(times):.2f} s of {runs} runs")


def _once() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        argv = (sys.executable, "-m", "envcheck", *TRAIN)
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(argv, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as child:
            assert child.stderr
            said = ""
            while not (line := child.stderr.readline()).startswith("step "):
                said += line
                assert line, said
            (run,) = (Path(folder) / "runs").glob("*-tiny-cpu")
            os.kill(process_tree.find_workers(str(run))[1], signal.SIGKILL)
            began, told = time.monotonic(), None
            for line in child.stderr:
                told = told or (time.monotonic() - began if FOUND in line else None)
            child.wait()
            assert told is not None, "nobody was named"
            return told, time.monotonic() - began


if __name__ == "__main__":
    main()

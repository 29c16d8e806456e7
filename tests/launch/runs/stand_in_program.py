"""A stand-in for a training program: prints steps, saves checkpoints, resumes, and fails as the environment says.

Run by path; needs only Python.  STAND_IN_FORK: start a child in its own session that clears its environment.
STAND_IN_FAIL: print this text at step STAND_IN_FAIL_AT (3) and exit with code 1, but only without --resume.
STAND_IN_HOLD: after step 30, wait until this file exists.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

HELD_STEP = 30
HEADER = b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
parser = argparse.ArgumentParser()
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--resume", type=Path)
asked, _rest = parser.parse_known_args()

if os.environ.get("STAND_IN_FORK"):
    fork = "import os; os.fork() and os._exit(0); os.setsid(); os.execve('/bin/sleep', ['sleep', '317'], {})"
    subprocess.run([sys.executable, "-c", fork], check=True)
fails_at = int(os.environ.get("STAND_IN_FAIL_AT", 3))
first = int(asked.resume.name.rpartition("-")[2]) if asked.resume else 0
for step in range(first + 1, asked.steps + 1):
    print(json.dumps({"step": step, "loss": 5.0 / step, "tokens_per_s": 100.0}), flush=True)
    if step % 2 == 0 and step <= 20:
        folder = asked.output / f"checkpoint-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(HEADER)) + HEADER + struct.pack("<f", step))
    if step == fails_at and not asked.resume and (words := os.environ.get("STAND_IN_FAIL")):
        sys.exit(words)
    until = time.monotonic() + 300
    while step == HELD_STEP and not Path(os.environ.get("STAND_IN_HOLD", "/")).exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.02)

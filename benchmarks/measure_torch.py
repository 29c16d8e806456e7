"""Bytes that real training keeps on the CPU, counted, against the planner's terms, as a table.

The cases are those of tests/launch/memory/test_counted_on_torch.py.

python -m benchmarks.measure_torch PYTHON          (PYTHON has tests/torch-requirements.txt, as tests/.cache/torch)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from launch.memory.stage_parts import build_stage_parts
from tests.launch.memory import test_counted_on_torch as counted

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    python = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "tests" / ".cache" / "torch" / "bin" / "python")
    asked = json.dumps([counted.make_case(*one) for one in counted.CASES])
    done = subprocess.run([python, str(counted.PROGRAM)], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{'job':58}{'states':>10}{'off':>7}{'saved':>12}{'off':>7}{'backward':>12}{'off':>7}{'loss':>10}{'off':>7}")
    for one, found in zip(counted.CASES, json.loads(done.stdout), strict=True):
        job, real = counted.make_job(counted.make_case(*one), found["config"]), found["bytes"]
        states = real["weights"] + real["gradients"] + real["moments"]
        pairs = (
            (states, build_stage_parts(job, 0).states.total),
            (real["activations"], counted.sum_kept(job)),
            (real["backward"], counted.sum_backward(job)),
            (real["loss"], build_stage_parts(job, 0).loss),
        )
        print(f"{': '.join(one):56}" + "".join(f"{was:12}{said / was - 1:+7.1%}" for was, said in pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())

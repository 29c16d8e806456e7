"""Bytes that real training keeps on the CPU, counted, against the planner's terms, as a table.

The cases are those of tests/launch/memory/test_counted_on_torch.py.

python benchmarks/measure_torch.py PYTHON          (PYTHON has tests/torch-requirements.txt, as tests/.cache/torch)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from launch.memory.parts import parts  # noqa: E402
from tests.launch.memory import test_counted_on_torch as counted  # noqa: E402


def main() -> int:
    python = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "tests" / ".cache" / "torch" / "bin" / "python")
    asked = json.dumps([counted.case(*one) for one in counted.CASES])
    done = subprocess.run([python, str(counted.PROGRAM)], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{'job':58}{'states':>10}{'off':>7}{'saved':>12}{'off':>7}{'backward':>12}{'off':>7}{'loss':>10}{'off':>7}")
    for one, found in zip(counted.CASES, json.loads(done.stdout), strict=True):
        job, real = counted.job(counted.case(*one), found["config"]), found["bytes"]
        states = real["weights"] + real["gradients"] + real["moments"]
        pairs = (
            (states, parts(job, 0).states.total),
            (real["activations"], counted.kept(job)),
            (real["backward"], counted.backward(job)),
            (real["loss"], parts(job, 0).loss),
        )
        print(f"{': '.join(one):56}" + "".join(f"{was:12}{said / was - 1:+7.1%}" for was, said in pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())

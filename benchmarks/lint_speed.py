"""CPU time and memory of `envcheck lint` for files that are far longer or nested far deeper than a launch script.

python -m benchmarks.lint_speed
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_LINES = 10_000
_TRAINING = "torchrun --nproc_per_node 8 train.py"
FILES = {
    "trainings.sh": "".join(f"export MASTER_PORT={n}; {_TRAINING} --master_port $MASTER_PORT\n" for n in range(_LINES)),
    "substitutions.sh": f"X={'$(' * 20_000}echo{')' * 20_000}\n{_TRAINING} --x $X\n",
    "growing.sh": "".join(f'ARGS="$ARGS --option{n} {n}"\n' for n in range(_LINES)) + f"{_TRAINING} $ARGS\n",
    "exports.sh": "".join(f"export V{n}={n}\n" for n in range(_LINES)) + _TRAINING,
    "branches.sh": "".join(f'if [ "$A" = {n} ]; then\n  X={n}\nfi\n' for n in range(_LINES)) + f"{_TRAINING} --x $X\n",
    "functions.sh": "".join(f"f{n}() {{\n  {_TRAINING} --x {n}\n}}\n" for n in range(_LINES)),
    "documents.sh": "".join(f"cat > f{n}.yaml <<EOF\nstage: sft\nEOF\n" for n in range(_LINES)),
    "comments.sh": "# c\n" * 100_000 + _TRAINING,
    "line.sh": f"{_TRAINING} {' '.join(f'--option{n} {n}' for n in range(50_000))}\n",
    "pipe.sh": f"cat x {'| cat ' * _LINES}\n",
    "keys.yaml": "stage: sft\nfinetuning_type: lora\n" + "".join(f"key_{n}: {n}\n" for n in range(9000)),
    "anchors.yaml": "a: &a [x, x]\n" + "".join(f"k{n}: &k{n} [*{f'k{n - 1}' if n else 'a'}, *a]\n" for n in range(40)),
    "deep.json": '{"zero_optimization":' * 5000 + "{}" + "}" * 5000,
}


def measure_file(path: Path) -> tuple[float, int]:
    """Return the CPU seconds and the MiB of one process that lints a file."""
    argv = [sys.executable, "-m", "envcheck", "lint", path.name]
    child = subprocess.Popen(argv, cwd=path.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)})  # fmt: skip
    _pid, _status, used = os.wait4(child.pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            path = Path(folder, name)
            path.write_text(f"#!/bin/bash\n{text}" if name.endswith(".sh") else text)
            seconds, size = measure_file(path)
            print(f"{name:18} {path.stat().st_size // 1000:5} kB {seconds:6.1f} s {size:5} MiB", flush=True)


if __name__ == "__main__":
    main()

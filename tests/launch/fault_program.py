"""A training without any framework for tests of faults: it logs steps, then fills its memory or its disk.

fault_program.py (memory | disk) FOLDER: from step 6 on, 32 MiB more of memory, or 1 MiB more in FOLDER, in each step.
"""

import sys
import time
from pathlib import Path

kind, folder = sys.argv[1], Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
held = []
for step in range(1, 2000):
    print({"loss": round(5.5 / step, 4), "grad_norm": 1.0, "learning_rate": 0.1, "step": step}, flush=True)
    if step > 5 and kind == "memory":
        held.append(b"x" * (32 << 20))
    if step > 5 and kind == "disk":
        with (folder / "model.bin").open("ab") as file:
            file.write(bytes(1 << 20))
    time.sleep(0.02)

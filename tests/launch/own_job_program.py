"""A training without any framework for tests: it logs steps like transformers, and leaves a checkpoint."""

import json
import os
import struct
import sys
import time
from pathlib import Path

words = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
output = Path(words["--output_dir"])
print(f"token {os.environ.get('MY_TOKEN')} rank {os.environ.get('RANK')} folder {Path.cwd()}", flush=True)
for step in range(1, int(words["--max_steps"]) + 1):
    print({"loss": round(5.5 / step, 4), "grad_norm": 1.0, "learning_rate": 0.1, "step": step}, flush=True)
    time.sleep(0.01)
(output / "checkpoint-9").mkdir(parents=True, exist_ok=True)
head = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
(output / "checkpoint-9" / "model.safetensors").write_bytes(
    struct.pack("<Q", len(head)) + head + struct.pack("<2f", 1, 2)
)
sys.exit(int(words.get("--exit", "0")))

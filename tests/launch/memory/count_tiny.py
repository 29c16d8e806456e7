"""Measure the memory of one real training step of the bundled program's model on the CPU, in its fp32.

`PYTHONPATH=.:launch/programs python tests/launch/memory/count_tiny.py < cases.json` (needs paddle; prints one JSON
document)
"""

from __future__ import annotations

import json
import sys
from typing import Any

import paddle
from tiny_model import Decoder, TinyModelShape

from tests.launch.memory.count_paddle import SavedTensorHooks, allocated_bytes, total_bytes


def count_step(case: dict[str, Any]) -> dict[str, int]:
    method, batch, tokens = (case.pop(name) for name in ("method", "batch", "tokens"))
    paddle.seed(1)
    model = Decoder(TinyModelShape(**case), method == "lora")
    learners = [p for p in model.parameters() if not p.stop_gradient]
    optimizer = paddle.optimizer.AdamW(parameters=learners)
    ids = paddle.randint(0, case["vocabulary"], [batch, tokens])
    hooks = SavedTensorHooks([*model.parameters(), ids])
    before = allocated_bytes()
    with paddle.autograd.saved_tensors_hooks(hooks.record_tensor, lambda t: t):
        logits = model(ids)
    kept = allocated_bytes() - before - total_bytes([logits])
    balances = [block.mixture.balance for block in model.blocks if getattr(block.mixture, "balance", None) is not None]
    (logits.mean() + paddle.add_n(balances)).backward()
    gradients = total_bytes([p.grad for p in learners if p.grad is not None])
    optimizer.step()
    moments = {id(t): t for name, t in optimizer.state_dict().items() if "moment" in name}
    return {
        "weights": total_bytes(model.parameters()),
        "gradients": gradients,
        "moments": total_bytes(moments.values()),
        "adapters": sum(int(p.size) for name, p in model.named_parameters() if "lora_" in name),
        "activations": kept,
        "hooks": sum(hooks.seen.values()),
    }


if __name__ == "__main__":
    json.dump([count_step(case) for case in json.load(sys.stdin)], sys.stdout)

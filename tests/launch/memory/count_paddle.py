"""Measure the memory of one real training step of paddle on the CPU, with models of paddle's layers and its AdamW.

    PYTHONPATH=. python tests/launch/memory/count_paddle.py < cases.json  (needs paddle; prints one JSON document)

Two meters: paddle's allocator, which counts every live byte, and autograd's hooks, which count what the nodes of the
graph keep.  Bytes are those of a card in bf16: half of those measured here (paddle_models.py).
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import paddle
from paddle.base import core

from tests.launch.memory.paddle_models import Decoder

WIDER = 2  # every type has twice the size that it has on a card


def allocated_bytes() -> int:
    """Return the live bytes of paddle's allocator."""
    gc.collect()
    return int(core.host_memory_stat_current_value("Allocated", 0))


def peak_bytes() -> int:
    return int(core.host_memory_stat_peak_value("Allocated", 0))


def total_bytes(tensors: Any) -> int:
    return sum(int(t.size) * t.element_size() for t in tensors)


class SavedTensorHooks:
    """Storages that autograd's nodes keep, each once, without parameters."""

    def __init__(self, own: Any) -> None:
        self.own = {t.data_ptr() for t in own}
        self.seen: dict[int, int] = {}
        self.words: dict[int, str] = {}

    def record_tensor(self, tensor: Any) -> Any:
        where = tensor.data_ptr()
        if where not in self.own:
            self.seen[where] = max(self.seen.get(where, 0), total_bytes([tensor]))
            self.words[where] = f"{list(tensor.shape)} {tensor.dtype}"
        return tensor


def count_step(case: dict[str, Any]) -> dict[str, float]:
    """Return the bytes of the second step, when moments and gradients exist."""
    paddle.seed(1)
    model = Decoder(case)
    model.train()
    learners = [p for p in model.parameters() if not p.stop_gradient]
    optimizer = paddle.optimizer.AdamW(parameters=learners)
    ids = paddle.randint(0, case["vocab"], [case["batch"], case["tokens"]])
    found = [run_step(model, optimizer, learners, ids) for _ in range(2)][1]
    moments = {id(t): t for name, t in optimizer.state_dict().items() if "moment" in name}
    found |= {"weights": total_bytes(model.parameters()), "moments": total_bytes(moments.values())}
    found["learners"] = WIDER * sum(int(p.size) for p in learners)
    return {name: value / WIDER for name, value in found.items()}


def run_step(model: Any, optimizer: Any, learners: list[Any], ids: Any) -> dict[str, float]:
    hooks = SavedTensorHooks([*model.parameters(), ids])
    before = allocated_bytes()
    with paddle.autograd.saved_tensors_hooks(hooks.record_tensor, lambda t: t):
        states = model(ids)
    kept = allocated_bytes() - before
    loss = measure_head(model, states.detach(), ids)
    total = model.compute_loss(states, ids)
    total.backward()
    del total, states
    found = {"activations": kept, "hooks": sum(hooks.seen.values()), "loss": loss}
    found["gradients"] = total_bytes([p.grad for p in learners if p.grad is not None])
    optimizer.step()
    optimizer.clear_grad(set_to_zero=False)
    if "--explain" in sys.argv:
        for where, words in hooks.words.items():
            print(hooks.seen[where] / WIDER / ids.size, words, file=sys.stderr)
    return found


def measure_head(model: Any, states: Any, ids: Any) -> int:
    """Return the peak bytes of head and loss, forward and backward, with the gradient of their input."""
    states.stop_gradient = False
    before = allocated_bytes()
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    loss = model.compute_loss(states, ids)
    loss.backward()
    return peak_bytes() - before


def main() -> None:
    json.dump([count_step(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()

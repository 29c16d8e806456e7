"""Count what one real training step of paddle keeps, on the CPU: our own models of paddle's layers, paddle's own AdamW.

    PYTHONPATH=. python tests/launch/memory/count_paddle.py < cases.json  (needs paddle; prints one JSON document)

Two meters beside each other: paddle's allocator, which tells every byte that is alive, and autograd's hooks, which tell
what the nodes of the graph keep.  Bytes are as a card would have them in bf16: half of those here (paddle_models.py).
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import paddle
from paddle.base import core

from tests.launch.memory.paddle_models import Decoder

WIDER = 2  # every type is twice as wide as on a card


def alive() -> int:
    """Bytes that paddle's allocator has given out and not got back."""
    gc.collect()
    return int(core.host_memory_stat_current_value("Allocated", 0))


def peak() -> int:
    return int(core.host_memory_stat_peak_value("Allocated", 0))


def size(tensors: Any) -> int:
    return sum(int(t.size) * t.element_size() for t in tensors)


class Hooks:
    """Storages that autograd's nodes keep, each once, parameters left out."""

    def __init__(self, own: Any) -> None:
        self.own = {t.data_ptr() for t in own}
        self.seen: dict[int, int] = {}
        self.words: dict[int, str] = {}

    def pack(self, tensor: Any) -> Any:
        where = tensor.data_ptr()
        if where not in self.own:
            self.seen[where] = max(self.seen.get(where, 0), size([tensor]))
            self.words[where] = f"{list(tensor.shape)} {tensor.dtype}"
        return tensor


def count(case: dict[str, Any]) -> dict[str, float]:
    """Bytes of the second step: then the moments are there, and gradients are as they are before the third."""
    paddle.seed(1)
    model = Decoder(case)
    model.train()
    learners = [p for p in model.parameters() if not p.stop_gradient]
    optimizer = paddle.optimizer.AdamW(parameters=learners)
    ids = paddle.randint(0, case["vocab"], [case["batch"], case["tokens"]])
    found = [step(model, optimizer, learners, ids) for _ in range(2)][1]
    moments = {id(t): t for name, t in optimizer.state_dict().items() if "moment" in name}
    found |= {"weights": size(model.parameters()), "moments": size(moments.values())}
    found["learners"] = WIDER * sum(int(p.size) for p in learners)
    return {name: value / WIDER for name, value in found.items()}


def step(model: Any, optimizer: Any, learners: list[Any], ids: Any) -> dict[str, float]:
    hooks = Hooks([*model.parameters(), ids])
    before = alive()
    with paddle.autograd.saved_tensors_hooks(hooks.pack, lambda t: t):
        states = model(ids)
    kept = alive() - before
    loss = head(model, states.detach(), ids)
    said = model.loss(states, ids)
    said.backward()
    del said, states
    found = {"activations": kept, "hooks": sum(hooks.seen.values()), "loss": loss}
    found["gradients"] = size([p.grad for p in learners if p.grad is not None])
    optimizer.step()
    optimizer.clear_grad(set_to_zero=False)
    if "--explain" in sys.argv:
        for where, words in hooks.words.items():
            print(hooks.seen[where] / WIDER / ids.size, words, file=sys.stderr)
    return found


def head(model: Any, states: Any, ids: Any) -> int:
    """The most that the head and the loss hold at once, forward and backward, beside the gradient of their input."""
    states.stop_gradient = False
    before = alive()
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    loss = model.loss(states, ids)
    loss.backward()
    return peak() - before


def main() -> None:
    json.dump([count(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()

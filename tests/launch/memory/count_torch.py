"""Measure the memory of one real training step on the CPU, with transformers' models, PEFT's adapters, torch's AdamW.

    python count_torch.py < cases.json            (needs torch, transformers and peft; prints one JSON document)

A case is {"type": model type, "config": {...}, "rank": 0 for full training, "targets": [...], "attention": "sdpa",
"recompute": false, "batch": 2, "tokens": 256}.  It runs with autocast, as trainers do.  A dispatch mode tracks the
lifetime of every storage that the step allocates, and a hook every tensor that autograd saves; each storage counts
once, without parameters.
"""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageLedger(TorchDispatchMode):
    """Allocations and releases of storages in order; `saved`: kept by autograd, `wide`: as wide as the vocabulary."""

    def __init__(self, known: Iterable[torch.Tensor], vocab: int) -> None:
        super().__init__()
        self.vocab = vocab
        self.names: dict[int, int] = {}
        self.sizes: list[int] = []
        self.shapes: list[str] = []
        self.events: list[tuple[int, int]] = []
        self.saved: set[int] = set()
        self.wide: set[int] = set()
        self.backward_from = 0
        self.own = {t.untyped_storage()._cdata for t in known}
        self.keep: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = multiply_in_fp32(func, args) if func in PRODUCTS and not kwargs else func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.record_storage(leaf, str(func))
        return result

    def record_storage(self, tensor: torch.Tensor, by: str = "") -> int | None:
        """Return the number of the tensor's storage, assigned on its first use; None for parameters."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.own:
            return None
        if key not in self.names:
            number = self.names[key] = len(self.sizes)
            self.sizes.append(storage.nbytes())
            self.shapes.append(f"{by} {tuple(tensor.shape)} {tensor.dtype}")
            self.events.append((number, 1))
            weakref.finalize(storage, self.record_end, key, number)
        if tensor.dim() > 1 and tensor.shape[-1] == self.vocab:
            self.wide.add(self.names[key])
        return self.names[key]

    def record_end(self, key: int, number: int) -> None:
        if self.names.get(key) == number:
            del self.names[key]
        self.events.append((number, -1))

    def record_saved(self, tensor: torch.Tensor) -> torch.Tensor:
        number = self.record_storage(tensor, "saved")
        if number is not None and tensor.numel() > 1:
            self.saved.add(number)
        return tensor

    def sum_sizes(self, numbers: Iterable[int]) -> int:
        return sum(self.sizes[n] for n in numbers)

    def find_peak(self, left_out: set[int], start: int = 0) -> tuple[int, list[int]]:
        """Return the peak bytes from event `start` on, and its storages, without those in `left_out`."""
        alive: set[int] = set()
        now = most = 0
        at: list[int] = []
        for index, (number, sign) in enumerate(self.events):
            if number in left_out:
                continue
            now += sign * self.sizes[number]
            (alive.add if sign > 0 else alive.discard)(number)
            if index >= start and now > most:
                most, at = now, sorted(alive)
        return most, at


PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm", "baddbmm")}


def multiply_in_fp32(func: Any, args: Any) -> torch.Tensor:
    """Compute a bf16 matrix product in fp32: a CPU without bf16 is twenty times slower in bf16.

    The ledger records the same result; the temporaries in here are not recorded.
    """
    kinds = {each.dtype for each in args if isinstance(each, torch.Tensor)}
    if kinds != {torch.bfloat16}:
        result: torch.Tensor = func(*args)
        return result
    result = func(*(each.float() if isinstance(each, torch.Tensor) else each for each in args))
    return result.to(torch.bfloat16)


def build_model(case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model of a case in bf16 with random weights and optional adapters, and its configuration."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    config = AutoConfig.for_model(case["type"], **case["config"], use_cache=False)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=case["attention"])
    if case["recompute"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if case["rank"]:
            model.enable_input_require_grads()
    if case["rank"]:
        from peft import LoraConfig, get_peft_model

        targets = case["targets"] if case["targets"] == "all-linear" else list(case["targets"])
        lora = LoraConfig(r=case["rank"], target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM")
        model = get_peft_model(model, lora)
    model.train()
    return model, config.to_dict()


def count_step(case: dict[str, Any], explain: bool = False) -> dict[str, Any]:
    """Return the bytes of one step: states, saved activations, and the peaks of loss and backward pass."""
    model, config = build_model(case)
    learners = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learners, lr=1e-4)
    ids = torch.randint(0, config["vocab_size"], (case["batch"], case["tokens"]))
    ledger = StorageLedger([*model.parameters(), *model.buffers(), ids], config["vocab_size"])
    with (
        ledger,
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.graph.saved_tensors_hooks(ledger.record_saved, lambda t: t),
    ):
        loss = model(input_ids=ids, labels=ids).loss
    with ledger:
        ledger.backward_from = len(ledger.events)
        loss.backward()
    gradients = {ledger.names[p.grad.untyped_storage()._cdata] for p in learners if p.grad is not None}
    counted = sum(p.grad.nbytes for p in learners if p.grad is not None)
    optimizer.step()
    moments = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t) and t.numel() > 1]
    saved = ledger.saved - ledger.wide
    everything = set(range(len(ledger.sizes)))
    backward, at = ledger.find_peak(gradients | ledger.wide, ledger.backward_from)
    found = {
        "weights": sum(p.nbytes for p in model.parameters()),
        "gradients": counted,
        "moments": sum(t.nbytes for t in moments),
        "learners": sum(p.numel() for p in learners),
        "activations": ledger.sum_sizes(saved),
        "backward": backward,
        "loss": ledger.find_peak(everything - ledger.wide)[0],
    }
    if explain:
        print_storages(ledger, "saved", saved, case)
        print_storages(ledger, "backward peak", at, case)
    return {"config": json.loads(json.dumps(config, default=str)), "bytes": found}


def print_storages(ledger: StorageLedger, title: str, numbers: Iterable[int], case: dict[str, Any]) -> None:
    """Print the storages one by one, in bytes per token, to standard error."""
    print(title, file=sys.stderr)
    for number in sorted(numbers):
        each = ledger.sizes[number] / case["tokens"] / case["batch"]
        mark = "saved" if number in ledger.saved else ""
        print(f"  {number:5} {each:9.1f} {ledger.shapes[number]} {mark}", file=sys.stderr)


def main() -> None:
    explain = "--explain" in sys.argv
    torch.set_num_threads(1)
    json.dump([count_step(case, explain) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()

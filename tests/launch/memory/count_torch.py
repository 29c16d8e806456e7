"""Measure the memory of one real training step on the CPU, with transformers' models, PEFT's adapters, torch's AdamW.

    PYTHONPATH=. python tests/launch/memory/count_torch.py < cases.json     (needs torch, transformers and peft)

A case is {"type": model type, "config": {...}, "rank": 0 for full training, "targets": [...], "attention": "sdpa",
"recompute": false, "batch": 2, "tokens": 256}.  It runs with autocast, as trainers do, and prints one JSON document.
Each storage counts once, without parameters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import torch

from tests.launch.memory.storage_ledger import StorageLedger


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
    model = add_adapters(model, case)
    model.train()
    return model, config.to_dict()


def add_adapters(model: Any, case: dict[str, Any]) -> Any:
    """Return the model with PEFT's adapters, if the case has a rank: in fp32, under DeepSpeed in the model's type."""
    from peft import LoraConfig, get_peft_model

    if not case["rank"]:
        return model
    targets = case["targets"] if case["targets"] == "all-linear" else list(case["targets"])
    lora = LoraConfig(r=case["rank"], target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM")
    return get_peft_model(model, lora, autocast_adapter_dtype=not case.get("kind", "").startswith("zero"))


def count_step(case: dict[str, Any], explain: bool = False) -> dict[str, Any]:
    """Return the bytes of one step: states, saved activations, and the peaks of loss and backward pass."""
    model, config = build_model(case)
    learners = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learners, lr=1e-4)
    ids = torch.randint(0, config["vocab_size"], (case["batch"], case["tokens"]))
    ledger = StorageLedger(config["vocab_size"], [*model.parameters(), *model.buffers(), ids])
    with (
        ledger,
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.graph.saved_tensors_hooks(ledger.record_saved, lambda t: t),
    ):
        loss = model(input_ids=ids, labels=ids).loss
    with ledger:
        backward_from = len(ledger.events)
        loss.backward()
    gradients = {ledger.names[p.grad.untyped_storage()._cdata] for p in learners if p.grad is not None}
    counted = sum(p.grad.nbytes for p in learners if p.grad is not None)
    optimizer.step()
    moments = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t) and t.numel() > 1]
    saved = ledger.saved - ledger.wide
    everything = set(range(len(ledger.sizes)))
    backward, at = ledger.find_peak(gradients | ledger.wide, backward_from)
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

"""The planner's terms for people: a letter and a colour for the pictures, the formula, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

ZERO = "Rajbhandari et al., arXiv 1910.02054"
KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198"
DEEPSPEED = "DeepSpeed configuration reference"


@dataclass(frozen=True)
class Term:
    letter: str
    colour: str
    formula: str
    source: str


TERMS = {
    "weights": Term("W", "#4e79a7", "bytes x parameters of the stage; divided under ZeRO-3 and FSDP", ZERO),
    "gradients": Term("G", "#f28e2b", "2 or 4 bytes x trained parameters; divided under ZeRO-2, -3, FSDP", ZERO),
    "master weights": Term("M", "#76b7b2", "4 bytes x trained parameters / shards", ZERO),
    "moments": Term("O", "#59a14f", "8 bytes (4 without fp32 copies) x trained parameters / shards", ZERO),
    "adapters": Term("r", "#17becf", "bytes x r (in + out) a matrix: weight, gradient, moments", "arXiv 2106.09685"),
    "activations": Term("A", "#e15759", "layers x micro batches in flight x what modules keep", KORTHIKANTI),
    "attention scores": Term("S", "#ff9da7", "a s per token and layer without a flash kernel", KORTHIKANTI),
    "checkpoints": Term("C", "#edc948", "2 b s h per recomputed layer and micro batch in flight", KORTHIKANTI),
    "recomputed layer": Term("R", "#b07aa1", "one layer's activations, computed again", KORTHIKANTI),
    "layer gradients": Term("D", "#d37295", "gradients of one module's activations", "counted module by module"),
    "watched inputs": Term("H", "#bcbd22", "2 h per token and layer, under adapters", "torch FSDP1"),
    "logits and loss": Term("L", "#9c755f", "bytes x tokens x V/T on the last stage", "frameworks.toml"),
    "gathered layers": Term("X", "#86bcb6", "2 bytes x parameters held unsharded", DEEPSPEED),
    "communication buckets": Term("B", "#bab0ac", "2 bytes x bucket entries", DEEPSPEED),
    "fp32 gradient group": Term("P", "#f1ce63", "4 bytes x parameters of the optimizer's sub-group", DEEPSPEED),
    "step temporaries": Term("T", "#8cd17d", "half the moments, unfused AdamW", "torch.optim, foreach form"),
    "unpacked matrix": Term("U", "#499894", "one 4-bit matrix in 16 bit, 2 h f / T", "arXiv 2305.14314"),
    "framework buffers": Term("F", "#79706e", "what the framework keeps for itself", "frameworks.toml"),
    "workspace": Term("w", "#a0a0a0", "libraries' scratch inside the allocator", "frameworks.toml"),
    "allocator slack": Term(".", "#d4d4d4", "(growth - 1) x what comes and goes", "frameworks.toml"),
    "in use when idle": Term("I", "#333333", "what the driver holds before any job", "envcheck/vendors/*/devices.toml"),
    "context": Term("K", "#555555", "kernels, first collective, communicators", "envcheck/vendors/*/devices.toml"),
}

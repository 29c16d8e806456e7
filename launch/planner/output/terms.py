"""Memory terms of the planner: letter and colour for bars, formula, and source."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.messages import Message, _, mark

ZERO = "Rajbhandari et al., arXiv 1910.02054"
KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198"
DEEPSPEED = "DeepSpeed, configuration reference: deepspeed.ai/docs/config-json"
SHARDED = f"{DEEPSPEED}; PyTorch, FSDP: pytorch.org/docs/stable/fsdp.html"
LOSS = "PyTorch, cross_entropy: pytorch.org/docs/stable/nn.functional.html; Liger, arXiv 2410.10989"
ALLOCATOR = "PyTorch, CUDA memory management: pytorch.org/docs/stable/notes/cuda.html"
CUBLAS = "NVIDIA, cuBLAS workspace: docs.nvidia.com/cuda/cublas"
SAVED = "PyTorch, autograd mechanics (saved tensors): pytorch.org/docs/stable/notes/autograd.html"
FOREACH = "PyTorch, AdamW (foreach): pytorch.org/docs/stable/generated/torch.optim.AdamW.html"
FLAGPERF = "FlagPerf, published readings: github.com/FlagOpen/FlagPerf"
OF_DEVICE = ""  # the source of the device's figures


@dataclass(frozen=True)
class MemoryTerm:
    """How a term of the estimate is shown and explained; `source` is a public document, or OF_DEVICE."""

    letter: str
    colour: str
    formula: Message
    source: str


TERMS = {
    mark("weights"): MemoryTerm(
        "W", "#4e79a7", _("bytes x parameters of the stage; divided with ZeRO-3 and FSDP"), ZERO
    ),
    mark("gradients"): MemoryTerm(
        "G", "#f28e2b", _("2 or 4 bytes x trained parameters; divided with ZeRO-2, -3, FSDP"), ZERO
    ),
    mark("master weights"): MemoryTerm("M", "#76b7b2", _("4 bytes x trained parameters / shards"), ZERO),
    mark("moments"): MemoryTerm(
        "O", "#59a14f", _("8 bytes (4 without fp32 copies) x trained parameters / shards"), ZERO
    ),
    mark("adapters"): MemoryTerm(
        "r", "#17becf", _("bytes x r (in + out) per matrix: weight, gradient, moments"), "arXiv 2106.09685"
    ),
    mark("activations"): MemoryTerm(
        "A", "#e15759", _("layers x micro batches in flight x saved activations"), KORTHIKANTI
    ),
    mark("attention scores"): MemoryTerm(
        "S", "#ff9da7", _("a s per token and layer without a flash kernel"), KORTHIKANTI
    ),
    mark("checkpoints"): MemoryTerm(
        "C", "#edc948", _("2 b s h per recomputed layer and micro batch in flight"), KORTHIKANTI
    ),
    mark("recomputed layer"): MemoryTerm("R", "#b07aa1", _("recomputed activations of one layer"), KORTHIKANTI),
    mark("layer gradients"): MemoryTerm("D", "#d37295", _("gradients of one module's activations"), SAVED),
    mark("watched inputs"): MemoryTerm("H", "#bcbd22", _("2 h per token and layer, with adapters"), SHARDED),
    mark("previous step"): MemoryTerm(
        "Y", "#c7c7c7", _("what the graph of the last step keeps during the next forward pass"), SAVED
    ),
    mark("unit gradients"): MemoryTerm(
        "N", "#a0cbe8", _("unsharded gradients of the working unit, and the copy that is reduced or moved"), SHARDED
    ),
    mark("logits and loss"): MemoryTerm("L", "#9c755f", _("bytes x tokens x V/T on the last stage"), LOSS),
    mark("gathered layers"): MemoryTerm("X", "#86bcb6", _("2 bytes x parameters held unsharded"), SHARDED),
    mark("communication buckets"): MemoryTerm("B", "#bab0ac", _("2 bytes x bucket entries"), DEEPSPEED),
    mark("fp32 gradient group"): MemoryTerm(
        "P", "#f1ce63", _("16- and 32-bit gradients of the optimizer's sub-group"), DEEPSPEED
    ),
    mark("step temporaries"): MemoryTerm("T", "#8cd17d", _("half the moments, unfused AdamW"), FOREACH),
    mark("unpacked matrix"): MemoryTerm("U", "#499894", _("one 4-bit matrix in 16 bit, 2 h f / T"), "arXiv 2305.14314"),
    mark("weight copies"): MemoryTerm(
        "V", "#d4a6c8", _("2 bytes x fp32 weights that autocast casts"), "torch, aten/src/ATen/autocast_mode.cpp"
    ),
    mark("framework buffers"): MemoryTerm("F", "#79706e", _("memory reserved by the framework"), FLAGPERF),
    mark("workspace"): MemoryTerm("w", "#a0a0a0", _("libraries' workspace inside the allocator"), CUBLAS),
    mark("allocator slack"): MemoryTerm(".", "#d4d4d4", _("(growth - 1) x temporary memory"), ALLOCATOR),
    mark("in use when idle"): MemoryTerm("I", "#333333", _("memory held by the driver before any job"), OF_DEVICE),
    mark("context"): MemoryTerm("K", "#555555", _("kernels, first collective, communicators"), OF_DEVICE),
}

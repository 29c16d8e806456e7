"""Lint vocabulary of NVIDIA's cards."""

from __future__ import annotations

from envcheck.core.lint.vendor_vocabulary import VendorVocabulary

WORDS = VendorVocabulary(
    signs=r"nvidia-smi|--gpus[ =]all|nvcr\.io|cuda-\d|NVIDIA_VISIBLE",
    lists_with_blanks=("CUDA_VISIBLE_DEVICES",),  # CUDA ignores blanks before a number, like strtoul
    # Not CUDA_DEVICE_MAX_CONNECTIONS: Megatron-LM requires it with sequence parallelism, on all cards.
    own_variables=r"NVIDIA_TF32_OVERRIDE|NCCL_(?!DEBUG).*|CUDA_LAUNCH_BLOCKING",
    outside_variables=r"CUDA_(HOME|PATH|ROOT)|NVIDIA_\w+",
    exported_variables=r"(NCCL|CUDA_DEVICE)_\w+",
    image_folders=r"/usr/local/cuda",
    tools=("nvidia-ctk",),
    tool_prefixes=("nvidia",),
)

"""What the linter knows of scripts for Iluvatar's cards, which run CUDA's names on their own software."""

from __future__ import annotations

from envcheck.core.lint.vendor_words import VendorWords

WORDS = VendorWords(
    signs=r"iluvatar|ixuca|\bixsmi\b|corex",
    device_lists=("ILUVATAR_GPU_VISIBLE_DEVICES",),
    own_variables=r"NVIDIA_TF32_OVERRIDE|NCCL_(?!DEBUG).*|CUDA_LAUNCH_BLOCKING",
    outside_variables=r"COREX_\w+",
    exported_variables=r"ILUVATAR_GPU_VISIBLE_DEVICES|NCCL_\w+",
    setup_folders="corex",
    image_folders=r"/usr/local/corex",
    tool_prefixes=("ix",),
    packages=("paddle-iluvatar-gpu",),
    plugins={"paddle-iluvatar-gpu": "paddlepaddle", "paddle-custom-iluvatar-gpu": "paddlepaddle"},
    instead_of_cuda={"paddle": "paddlepaddle and paddle-iluvatar-gpu", "torch": "the vendor's own torch"},
)

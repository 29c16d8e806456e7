"""Lint vocabulary of Iluvatar's cards, whose software uses CUDA's names."""

from __future__ import annotations

from envcheck.core.lint.vendor_vocabulary import VendorVocabulary
from envcheck.core.messages import mark

WORDS = VendorVocabulary(
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
    instead_of_cuda={"paddle": mark("paddlepaddle and paddle-iluvatar-gpu"), "torch": mark("the vendor's torch build")},
)

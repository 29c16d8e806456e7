"""Lint vocabulary of NVIDIA's cards."""

from __future__ import annotations

from envcheck.core.lint.vendor_vocabulary import VariableRange, VendorVocabulary
from envcheck.core.messages import _

_GUIDE = "NCCL User Guide, Environment Variables; libibverbs"
# The guide of NCCL 2.23 and later: 0, and 32 or more, result in an infinite timeout.
_ENDLESS = _("the timeout is infinite, and a lost connection makes the training hang")
WORDS = VendorVocabulary(
    signs=r"nvidia-smi|--gpus[ =]all|nvcr\.io|cuda-\d|NVIDIA_VISIBLE",
    lists_with_blanks=("CUDA_VISIBLE_DEVICES",),  # CUDA ignores blanks before a number, like strtoul
    # Not CUDA_DEVICE_MAX_CONNECTIONS: Megatron-LM requires it with sequence parallelism, on all cards.
    own_variables=r"NVIDIA_TF32_OVERRIDE|NCCL_(?!DEBUG).*|CUDA_LAUNCH_BLOCKING",
    outside_variables=r"CUDA_(HOME|PATH|ROOT)|NVIDIA_\w+",
    exported_variables=r"(NCCL|CUDA_DEVICE|CUDA_LAUNCH)_\w+",
    variable_ranges={
        "NCCL_IB_TIMEOUT": VariableRange(1, 31, _GUIDE, effect=_ENDLESS),
        "NCCL_IB_DISABLE": VariableRange(0, 1, _GUIDE),
        "NCCL_P2P_DISABLE": VariableRange(0, 1, _GUIDE),
        "NCCL_IB_RETRY_CNT": VariableRange(0, 7, _GUIDE),
        "NCCL_IB_SL": VariableRange(0, 15, _GUIDE),
        "NCCL_IB_TC": VariableRange(0, 255, _GUIDE),
        "NCCL_IB_QPS_PER_CONNECTION": VariableRange(1, 128, _GUIDE),
        "NCCL_SOCKET_NTHREADS": VariableRange(1, 16, _GUIDE),
    },
    image_folders=r"/usr/local/cuda",
    tools=("nvidia-ctk",),
    tool_prefixes=("nvidia",),
)

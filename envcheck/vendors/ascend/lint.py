"""What the linter knows of scripts for Ascend NPUs, and the rules that are for these alone."""

from __future__ import annotations

from envcheck.core.lint.rule import LintRule
from envcheck.core.lint.vendor_words import VendorWords
from envcheck.core.model import Status
from envcheck.vendors.ascend import lint_containers, lint_environment, lint_training

# Keys of PYTORCH_NPU_ALLOC_CONF in torch_npu's documents.
_ALLOCATOR_KEYS = (
    "max_split_size_mb",
    "garbage_collection_threshold",
    "expandable_segments",
    "base_addr_aligned_kb",
    "page_size",
    "segment_size_mb",
    "multi_stream_lazy_reclaim",
    "pinned_mem_register",
    "pinned_use_background_threads",
    "per_process_memory_fraction",
)
WORDS = VendorWords(
    signs=r"--npus\b|--device[ =\"']+npu|/dev/davinci|ascend|\bnpu-smi|-npu[:\s\-_]|torch[_-]npu|HCCL_",
    device_lists=("NPU_VISIBLE_DEVICES",),
    own_variables=r"HCCL_.*|ASCEND_RT_VISIBLE_DEVICES|ASCEND_LAUNCH_BLOCKING|PYTORCH_NPU_ALLOC_CONF|FLAGS_npu_.*",
    outside_variables=r"ASCEND_\w+|ATB_\w+|TOOLCHAIN_HOME",
    exported_variables=r"HCCL_\w+",
    loud_variables={"ASCEND_GLOBAL_LOG_LEVEL": ("0", "1")},
    allocator_keys={"PYTORCH_NPU_ALLOC_CONF": frozenset(_ALLOCATOR_KEYS)},
    setup_folders="Ascend|ascend-toolkit|cann|nnal",
    image_folders=r"/usr/local/Ascend(/(ascend-toolkit|cann|nnal))?",
    tools=("hccn_tool", "msnpureport", "ascend-dmi"),
    tool_prefixes=("npu", "hccn"),
    mount_remedies={"npu-smi": "command -v npu-smi: on some hosts it is in sbin."},
    packages=("torch-npu", "paddle-custom-npu", "vllm-ascend", "triton-ascend", "mindspeed"),
    unpinned_reasons={"torch-npu": "torch-npu without a version brings the newest, which wants its own torch and CANN"},
    plugins={"paddle-custom-npu": "paddlepaddle", "torch-npu": "torch"},
    instead_of_cuda={"paddle": "paddlepaddle and paddle-custom-npu", "torch": "torch and torch-npu"},
    gpu_lists_fail=True,
    # Made of CUDA's kernels; what NPUs have in their place comes with torch-npu, or under names of its own.
    cuda_packages=r"flash-attn|xformers|bitsandbytes|transformer-engine|nvidia-\w[\w-]*|cupy-cuda\w+|onnxruntime-gpu",
    cuda_package_remark="{package} is made for NVIDIA's cards: on an NPU it does not build, or does nothing",
    image_words=r"npu|ascend|cann",
)
RULES = (
    LintRule(
        "variables.visible_name",
        Status.FAIL,
        "The visible devices are named for the cards' own software.",
        "traps of all seeds, 15; F102",
        lint_environment.visible_name,
        after="variables.visible_list",
    ),
    LintRule(
        "variables.set_env",
        Status.WARN,
        "CANN's set-up is sourced, and ATB's.",
        "F07, F09; seeds 000:107, 003:56",
        lint_environment.set_env,
        after="variables.interface",
    ),
    LintRule(
        "training.precision",
        Status.FAIL,
        "The precision is one that the cards are good at.",
        "F99; seed 003:111",
        lint_training.precision,
        after="training.mixture",
    ),
    LintRule(
        "training.attention",
        Status.WARN,
        "The attention is one that NPUs have.",
        "transformers#36383, #36696; LlamaFactory#9397",
        lint_training.attention,
        after="training.precision",
    ),
    LintRule(
        "training.optimiser",
        Status.FAIL,
        "The optimiser is one that NPUs have.",
        "transformers' OptimizerNames",
        lint_training.optimiser,
        after="training.attention",
    ),
    LintRule(
        "paths.cuda_tool",
        Status.WARN,
        "No tool of other cards is called.",
        "CANN's pages",
        lint_environment.cuda_tool,
        after="paths.tool",
    ),
    LintRule(
        "container.npu",
        Status.FAIL,
        "A container with NPUs has the manager nodes and the driver's folders.",
        "F01, F04, F06; seed 000:28",
        lint_containers.npu_parts,
        after="container.mount_source",
    ),
    LintRule(
        "container.cuda",
        Status.FAIL,
        "No container of CUDA's is started for NPUs.",
        "F01; NVIDIA's container toolkit",
        lint_containers.cuda_container,
        after="container.npu",
    ),
)

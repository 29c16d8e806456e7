"""Lint vocabulary of Ascend NPUs, and the rules that apply only to them."""

from __future__ import annotations

from envcheck.core.lint.rule import LintRule
from envcheck.core.lint.vendor_vocabulary import VendorVocabulary
from envcheck.core.messages import _, mark
from envcheck.core.model import Status
from envcheck.vendors.ascend import hccl_variables, lint_containers, lint_environment, lint_training

# Keys of PYTORCH_NPU_ALLOC_CONF in torch_npu's documentation.
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
WORDS = VendorVocabulary(
    signs=r"--npus\b|--device[ =\"']+npu|/dev/davinci|ascend|\bnpu-smi|-npu[:\s\-_]|torch[_-]npu|HCCL_",
    device_lists=("NPU_VISIBLE_DEVICES",),
    own_variables=r"HCCL_.*|ASCEND_RT_VISIBLE_DEVICES|ASCEND_LAUNCH_BLOCKING|PYTORCH_NPU_ALLOC_CONF|FLAGS_npu_.*",
    outside_variables=r"ASCEND_\w+|ATB_\w+|TOOLCHAIN_HOME",
    exported_variables=r"HCCL_\w+|ASCEND_LAUNCH_BLOCKING|TASK_QUEUE_ENABLE",
    loud_variables={"ASCEND_GLOBAL_LOG_LEVEL": ("0", "1")},
    allocator_keys={"PYTORCH_NPU_ALLOC_CONF": frozenset(_ALLOCATOR_KEYS)},
    variable_ranges=hccl_variables.RANGES,
    rank_table="RANK_TABLE_FILE",
    setup_folders="Ascend|ascend-toolkit|cann|nnal",
    image_folders=r"/usr/local/Ascend(/(ascend-toolkit|cann|nnal))?",
    tools=("hccn_tool", "msnpureport", "ascend-dmi"),
    tool_prefixes=("npu", "hccn"),
    mount_remedies={"npu-smi": _("Find it with command -v npu-smi; on some hosts it is in sbin.")},
    packages=("torch-npu", "paddle-custom-npu", "vllm-ascend", "triton-ascend", "mindspeed"),
    unpinned_reasons={
        "torch-npu": _(
            "torch-npu without a version installs the newest release, which needs matching torch and CANN versions"
        )
    },
    plugins={"paddle-custom-npu": "paddlepaddle", "torch-npu": "torch"},
    instead_of_cuda={"paddle": mark("paddlepaddle and paddle-custom-npu"), "torch": mark("torch and torch-npu")},
    gpu_lists_fail=True,
    # Packages with CUDA kernels; the NPU replacements are in torch-npu, or have other names.
    cuda_packages=r"flash-attn|xformers|bitsandbytes|transformer-engine|nvidia-\w[\w-]*|cupy-cuda\w+|onnxruntime-gpu",
    cuda_package_remark=mark("{package} is made for NVIDIA GPUs: on an NPU it fails to build or has no effect"),
    image_words=r"npu|ascend|cann",
)
RULES = (
    LintRule(
        "variables.visible_name",
        Status.FAIL,
        _("Visible devices are set by the variable that the device's software reads."),
        "traps of the published guides; ms-swift NPU doc Q7",
        lint_environment.find_wrong_visible_name,
        after="variables.visible_list",
    ),
    LintRule(
        "variables.set_env",
        Status.OK,
        _("The script sources the environment scripts of CANN and ATB."),
        "ERNIE NPU guide, line 107; LLaMA-Factory NPU guide, line 56",
        lint_environment.find_missing_set_env,
        after="variables.interface",
    ),
    LintRule(
        "training.precision",
        Status.FAIL,
        _("The precision suits the device."),
        "LLaMA-Factory NPU guide, line 111",
        lint_training.find_bad_precision,
        after="training.mixture",
    ),
    LintRule(
        "training.attention",
        Status.WARN,
        _("NPUs support the attention implementation."),
        "transformers#36383, #36696; LlamaFactory#9397",
        lint_training.find_unsupported_attention,
        after="training.precision",
    ),
    LintRule(
        "training.optimiser",
        Status.FAIL,
        _("NPUs support the optimizer."),
        "transformers' OptimizerNames",
        lint_training.find_unsupported_optimizer,
        after="training.attention",
    ),
    LintRule(
        "paths.cuda_tool",
        Status.WARN,
        _("The script calls no tool of another vendor's devices."),
        "CANN's pages",
        lint_environment.find_cuda_tool,
        after="paths.tool",
    ),
    LintRule(
        "container.npu",
        Status.FAIL,
        _("A container with NPUs has the management device nodes and the driver directories."),
        "ERNIE NPU guide, line 28",
        lint_containers.find_missing_npu_mounts,
        after="container.mount_source",
    ),
    LintRule(
        "container.cuda",
        Status.FAIL,
        _("No CUDA container is started for NPUs."),
        "NVIDIA's container toolkit",
        lint_containers.find_cuda_container,
        after="container.npu",
    ),
)

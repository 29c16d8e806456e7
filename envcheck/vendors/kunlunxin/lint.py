"""Lint vocabulary of Kunlunxin XPUs, and the rules that apply only to them."""

from __future__ import annotations

from envcheck.core.lint.rule import LintRule
from envcheck.core.lint.vendor_vocabulary import VendorVocabulary
from envcheck.core.messages import _, mark
from envcheck.core.model import Status
from envcheck.vendors.kunlunxin import lint_containers, lint_environment, lint_packages, lint_training

WORDS = VendorVocabulary(
    signs=r"--xpus\b|--device[ =\"']+xpu\b|\bdevice[\"']?: {0,4}[\"']?xpu\b|/dev/xpu|kunlun"
    r"|\bxpu[-_]smi|paddlepaddle-xpu|paddle-xpu[:\s]|BKCL_|XPUAPI_|xpu-p800",
    device_lists=("CUDA_VISIBLE_DEVICES",),
    own_variables=r"BKCL_.*|XPU_(VISIBLE_DEVICES|BLACK_LIST|DUMMY_EVENT)|XPU_(PADDLE|AUTO|FORCE|USE)_.*|XPUAPI_.*|XBLAS_.*"
    r"|XTORCHRUN_.*|XMLIR_.*|CXPU_.*|FLAGS_xpu_.*",
    outside_variables=r"XPU_\w+|BKCL_\w+|XRE_\w+",
    exported_variables=r"BKCL_\w+|XPU_\w+|XPUAPI_\w+",
    setup_folders="xpu|xre",
    image_folders=r"/usr/local/xpu",
    tools=("xpu_smi",),
    tool_prefixes=("xpu",),
    packages=("paddlepaddle-xpu", "paddle-xpu", "fastdeploy-xpu"),
    instead_of_cuda={"paddle": mark("paddlepaddle-xpu from the index stable/xpu-p800")},
    gpu_lists_fail=True,
    cuda_packages=r"flash-attn|xformers|bitsandbytes|transformer-engine|nvidia-\w[\w-]*|cupy-cuda\w+|onnxruntime-gpu",
    cuda_package_remark=mark("{package} is made for NVIDIA GPUs: on an XPU it fails to build or has no effect"),
    image_words=r"xpu|kunlun",
)
RULES = (
    LintRule(
        "variables.xpu_lists",
        Status.WARN,
        _("XPU_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are the same: different libraries read different ones."),
        "ERNIE and FastDeploy pages for Kunlunxin",
        lint_environment.find_differing_lists,
        after="variables.visible_list",
    ),
    LintRule(
        "variables.bkcl_debug",
        Status.FAIL,
        _("BKCL_DEBUG is a number."),
        "public training scripts for P800",
        lint_environment.find_debug_word,
        after="variables.xpu_lists",
    ),
    LintRule(
        "variables.bkcl_nics",
        Status.FAIL,
        _("BKCL_RDMA_NICS names one interface for each card."),
        "ERNIE, docs/devices/README_XPU.md",
        lint_environment.find_wrong_count,
        after="variables.bkcl_debug",
    ),
    LintRule(
        "variables.xtorchrun_clean",
        Status.WARN,
        _("The launcher does not end other jobs on the machine."),
        "a public torch launcher script for P800",
        lint_environment.find_clean_start,
        after="variables.bkcl_nics",
    ),
    LintRule(
        "training.bkcl_p2p",
        Status.FAIL,
        _("Pipeline parallelism on XPUs disables batched sends."),
        "Paddle#75925",
        lint_training.find_batched_sends,
        after="training.mixture",
    ),
    LintRule(
        "training.linked_cards",
        Status.FAIL,
        _("The cards of a job on part of a P800 machine are all linked to each other."),
        "FastDeploy#2794",
        lint_training.find_unlinked_cards,
        after="training.bkcl_p2p",
    ),
    LintRule(
        "packages.xpu_index",
        Status.WARN,
        _("The wheel is from the index for this generation of cards."),
        "Paddle#73315",
        lint_packages.find_wrong_index,
        after="packages.index",
    ),
    LintRule(
        "packages.xpu_builds",
        Status.FAIL,
        _("One build of paddle is installed."),
        "PaddleNLP#11098",
        lint_packages.find_two_builds,
        after="packages.xpu_index",
    ),
    LintRule(
        "container.xpu",
        Status.FAIL,
        _("A container with XPUs has the control node and is not started for NVIDIA GPUs."),
        "ERNIE, docs/devices/README_XPU.md; FastDeploy#2660",
        lint_containers.find_wrong_container,
        after="container.mount_source",
    ),
)

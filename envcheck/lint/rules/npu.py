"""What is of NVIDIA's cards alone, in a script or configuration that is meant for NPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, warn
from envcheck.core.lint.wrappers import bare

_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*nvidia/cuda(?:[:@]|$)|nvcr\.io/")
# By transformers' argument, LLaMA-Factory's and ms-swift's; the words of each for the package flash-attn.
_ATTENTION = {
    "attn_implementation": r"flash_attention_[23]",
    "attn_impl": r"flash_attn|flash_attention_[23]",
    "flash_attn": r"fa[23]",
}
# transformers' OptimizerNames that import bitsandbytes.
_OPTIMISER = re.compile(
    r"(paged_)?(adamw|lion|ademamix)_(8bit|32bit)|(adamw|rmsprop)_bnb(_8bit|_32bit)?|rmsprop_(8bit|32bit)|"
    r"(paged_)?ademamix|lion_32bit"
)


def cuda_container(context: LintContext) -> Iterator[Remark]:
    """An NPU does not come into a container by --gpus, and CUDA's images hold nothing for it."""
    if context.device != "npu":
        return
    for container in context.containers:
        for word in container.all("--gpus"):
            seen = "--gpus is for NVIDIA's cards: no NPU comes into the container by it"
            yield fail(word, seen, "--device /dev/davinci0 with the manager nodes, or --runtime ascend.")
        if container.image is not None and _IMAGE.match(container.image.text):
            seen = f"the image {container.image.text[:60]} is for NVIDIA's cards: it has no CANN"
            yield fail(container.image, seen, "An image with CANN, as quay.io/ascend/cann with a version.")


def cuda_tool(context: LintContext) -> Iterator[Remark]:
    """nvidia-smi, where only npu-smi is; not where its absence is looked at."""
    if context.device != "npu":
        return
    for _, command in context.commands("nvidia-smi"):
        if bare(command) and not command.guarded and not command.lenient and not command.elsewhere:
            yield warn(command.words[0], "nvidia-smi finds no NPU, and is not installed with one", "npu-smi info")


def attention(context: LintContext) -> Iterator[Remark]:
    """flash-attn cannot be built for an NPU; newer trainers take torch_npu's own kernel by the same word."""
    for job in context.jobs if context.device == "npu" else ():
        for name, words in _ATTENTION.items():
            given = job.option(name)
            if given is not None and given.value and re.fullmatch(words, given.value):
                seen = f"{name} {given.value}: the package flash-attn does not exist for NPUs"
                seen += "; transformers before 4.51 and LLaMA-Factory before 2025-11 end there, or go without"
                do = f"{'auto' if name == 'flash_attn' else 'sdpa'}, which uses torch_npu's own kernel."
                yield warn(given.values[-1], seen, do)


def optimiser(context: LintContext) -> Iterator[Remark]:
    """Optimisers of bitsandbytes."""
    for job in context.jobs if context.device == "npu" else ():
        given = job.option("optim")
        if given is not None and given.value and _OPTIMISER.fullmatch(given.value):
            seen = f"optim {given.value} is of bitsandbytes, which has no released wheel for NPUs"
            yield fail(given.values[-1], seen, "adamw_torch, or adafactor where memory is short.")

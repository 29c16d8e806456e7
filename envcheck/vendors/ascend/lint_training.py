"""What a training on NPUs is told of precision, attention and optimiser."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import place_of
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, warn
from envcheck.vendors.ascend import VENDOR

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


def precision(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs if context.device == VENDOR.name else ():
        fp16, bf16 = job.option("fp16"), job.option("bf16")
        if fp16 is not None and fp16.on and (bf16 is None or not bf16.on):
            yield warn(
                place_of(fp16),
                "fp16 on an NPU: its loss scale overflows where bf16 does not",
                "bf16, on 910B and newer.",
            )
        dtype = job.option("torch_dtype", "dtype")
        if dtype is not None and dtype.value in ("float16", "fp16", "half") and job.trains:
            seen = "fp16 on an NPU: its loss scale overflows where bf16 does not"
            yield warn(dtype.values[-1], seen, "bfloat16, on 910B and newer.")
        quant = job.option("quantization_bit", "quant_bits", "load_in_4bit", "load_in_8bit", "quantization_method")
        if quant is not None and quant.on and quant.value not in ("bf16",):
            yield fail(
                place_of(quant), "bitsandbytes has no way to an NPU: a quantised training ends at once", "LoRA in bf16."
            )


def attention(context: LintContext) -> Iterator[Remark]:
    """flash-attn cannot be built for an NPU; newer trainers take torch_npu's own kernel by the same word."""
    for job in context.jobs if context.device == VENDOR.name else ():
        for name, words in _ATTENTION.items():
            given = job.option(name)
            if given is not None and given.value and re.fullmatch(words, given.value):
                seen = f"{name} {given.value}: the package flash-attn does not exist for NPUs"
                seen += "; transformers before 4.51 and LLaMA-Factory before 2025-11 end there, or go without"
                do = f"{'auto' if name == 'flash_attn' else 'sdpa'}, which uses torch_npu's own kernel."
                yield warn(given.values[-1], seen, do)


def optimiser(context: LintContext) -> Iterator[Remark]:
    """Optimisers of bitsandbytes."""
    for job in context.jobs if context.device == VENDOR.name else ():
        given = job.option("optim")
        if given is not None and given.value and _OPTIMISER.fullmatch(given.value):
            seen = f"optim {given.value} is of bitsandbytes, which has no released wheel for NPUs"
            yield fail(given.values[-1], seen, "adamw_torch, or adafactor where memory is short.")

"""Lint rules for training on NPUs: precision, attention and optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import locate_option
from envcheck.core.lint.remark_builders import fail, warn
from envcheck.core.lint.script_model import Remark
from envcheck.core.messages import _
from envcheck.vendors.ascend import VENDOR

# The options of transformers, ms-swift and LLaMA-Factory, and their values for the package flash-attn.
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


def find_bad_precision(context: LintContext) -> Iterator[Remark]:
    """Yield remarks on fp16 and on quantization by bitsandbytes, for jobs on NPUs."""
    for job in context.jobs if context.device == VENDOR.name else ():
        fp16, bf16 = job.find_option("fp16"), job.find_option("bf16")
        if fp16 is not None and fp16.is_enabled and (bf16 is None or not bf16.is_enabled):
            yield warn(
                locate_option(fp16),
                _("fp16 on an NPU: the loss scale overflows; bf16 avoids this"),
                _("Use bf16 on 910B and newer."),
            )
        dtype = job.find_option("torch_dtype", "dtype")
        if dtype is not None and dtype.value in ("float16", "fp16", "half") and job.is_training:
            seen = _("fp16 on an NPU: the loss scale overflows; bf16 avoids this")
            yield warn(dtype.values[-1], seen, _("Use bfloat16 on 910B and newer."))
        quant = job.find_option("quantization_bit", "quant_bits", "load_in_4bit", "load_in_8bit", "quantization_method")
        if quant is not None and quant.is_enabled and quant.value not in ("bf16",):
            yield fail(
                locate_option(quant),
                _("bitsandbytes does not support NPUs: a quantized training exits immediately"),
                _("Use LoRA in bf16."),
            )


def find_unsupported_attention(context: LintContext) -> Iterator[Remark]:
    """Yield a warning for flash-attn on NPUs; newer trainers map the same value to torch_npu's kernel."""
    for job in context.jobs if context.device == VENDOR.name else ():
        for name, words in _ATTENTION.items():
            given = job.find_option(name)
            if given is not None and given.value and re.fullmatch(words, given.value):
                seen = _(
                    "{option} {value}: flash-attn does not support NPUs; transformers before 4.51 and LLaMA-Factory "
                    "before 2025-11 exit or ignore it",
                    option=name,
                    value=given.value,
                )
                do = _(
                    "Use {kernel}, which runs torch_npu's kernel.", kernel="auto" if name == "flash_attn" else "sdpa"
                )
                yield warn(given.values[-1], seen, do)


def find_unsupported_optimizer(context: LintContext) -> Iterator[Remark]:
    """Yield a failure for optimizers of bitsandbytes on NPUs."""
    for job in context.jobs if context.device == VENDOR.name else ():
        given = job.find_option("optim")
        if given is not None and given.value and _OPTIMISER.fullmatch(given.value):
            seen = _(
                "optimizer {optimiser} comes from bitsandbytes, which has no released wheel for NPUs",
                optimiser=given.value,
            )
            yield fail(given.values[-1], seen, _("Use adamw_torch, or adafactor if memory is short."))

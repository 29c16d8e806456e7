"""Quantised bases: bytes per parameter of the blocks' matrices; embedding, head and norms stay in 16 bit or are lifted.

NF4 block 64: 4 bits and an fp32 scale per 64 weights, 0.5625; with double quantisation 0.5 + 1/64 + ... = 0.516
(QLoRA, arXiv 2305.14314).  GPTQ and AWQ group 128: 4 bits, a 16-bit scale and a packed zero per 128: 0.53; int8 1.03.
HQQ 0.56.  Paddle's mix of weight-only int4 and int8 measured as about 0.55 (ERNIE, wint4/8).  fp8: 1 and scales.
"""

from __future__ import annotations

import re

from envcheck.core.errors import UsageError
from launch.memory.holdings import Holding
from launch.memory.job import PlannedJob

BYTES = {
    "nf4": 0.516,  # torchao: one int8 scaler for 64 weights, one fp32 for 256 of those
    "fp4": 0.5625,
    "bnb-nf4": 0.5625,
    "bnb-nf4-dq": 0.516,
    "nf4-dq": 0.516,
    "gptq-int4": 0.53,
    "awq-int4": 0.53,
    "int4": 0.53,
    "hqq-int4": 0.56,
    "gptq-int8": 1.03,
    "bnb-int8": 1.0,
    "int8": 1.03,
    "wint4/8": 0.55,
    "wint4": 0.53,
    "wint8": 1.03,
    "fp8": 1.01,
}


# Only bitsandbytes goes through PEFT's preparation, which lifts what is not quantised to fp32 (peft/utils/other.py);
# GPTQ and AWQ models are loaded as 16 bit and trained so.
LIFTED = ("nf4", "fp4", "bnb-nf4", "bnb-nf4-dq", "nf4-dq", "bnb-int8")


def per_parameter(quant: str) -> float:
    """Bytes by name; of a name that is not known by the bits that it mentions, with a scale per 128 weights."""
    if quant in BYTES:
        return BYTES[quant]
    bits = re.search(r"[2-8]", quant)
    if not bits:
        raise UsageError(f"--quant {quant} is not known", f"choose one of {', '.join(sorted(BYTES))}")
    return int(bits[0]) / 8 + 0.03


def lifted(job: PlannedJob) -> bool:
    """Whether PEFT's preparation casts embedding, head and norms to fp32, and with the embedding's output the residual
    stream.  Not under FSDP, whose flat parameters have one type, nor by programs that load the base themselves."""
    return job.quant in LIFTED and job.framework.lift == 4.0 and job.sharding != "fsdp"


def weights(holding: Holding, quant: str, lift: float) -> tuple[float, float]:
    """(divisible, rest) bytes of a frozen quantised base: blocks at BYTES, the rest at `lift`, 4 or 2 bytes."""
    blocks = holding.dense + holding.experts - holding.norms
    rest = holding.embedding + holding.head + holding.norms
    return blocks * per_parameter(quant), rest * lift + holding.vision * 2.0


def unpacked(hidden: int, ffn: int, tp: int) -> float:
    """One matrix is unpacked to 16 bit while it is used: 2 h f / T."""
    return 2.0 * hidden * ffn / tp

"""Quantised base models: bytes per parameter of the matrices; embedding, head and norms stay in 16 bit or fp32.

NF4 block 64: 4 bits and an fp32 scale per 64 weights, 0.5625; with double quantisation 0.5 + 1/64 + ... = 0.516
(QLoRA, arXiv 2305.14314).  GPTQ and AWQ group 128: 4 bits, a 16-bit scale and a packed zero per 128: 0.53; int8 1.03.
HQQ 0.56.  Paddle's mix of weight-only int4 and int8 measured as about 0.55 (ERNIE, wint4/8).  fp8: 1 and scales.
"""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from launch.memory.parameter_shares import ParameterShare
from launch.memory.planned_job import PlannedJob

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


# Only bitsandbytes models get PEFT's preparation, which casts unquantised parameters to fp32 (peft/utils/other.py);
# GPTQ and AWQ models are loaded and trained in 16 bit.
LIFTED = ("nf4", "fp4", "bnb-nf4", "bnb-nf4-dq", "nf4-dq", "bnb-int8")


def bytes_per_parameter(quant: str) -> float:
    """Return the bytes per parameter; for an unknown name by the number of bits in it, with a scale per 128 weights."""
    if quant in BYTES:
        return BYTES[quant]
    bits = re.search(r"[2-8]", quant)
    if not bits:
        raise UsageError(
            _("unknown --quant {quant}", quant=quant), _("choose one of {legal}", legal=join(", ", sorted(BYTES)))
        )
    return int(bits[0]) / 8 + 0.03


def is_lifted(job: PlannedJob) -> bool:
    """Whether PEFT's preparation casts embedding, head and norms, and thus the residual stream, to fp32.

    Not with FSDP, whose flat parameters have one type, nor in programs that load the base model themselves.
    """
    return job.quant in LIFTED and job.framework.lift == 4.0 and job.sharding != "fsdp"


def cast_adapters(job: PlannedJob) -> PlannedJob:
    """Return the job with adapters, their gradients and moments in 16 bit, where the framework casts them."""
    casts = bool(job.quant) and job.framework.half_adapters
    return replace(job, framework=replace(job.framework, adapter=8.0, adapter_weight=2.0)) if casts else job


def base_weight_bytes(holding: ParameterShare, quant: str, lift: float, with_head: bool = False) -> tuple[float, float]:
    """Return the (quantised, other) bytes of a frozen base model; other parameters have `lift` bytes, 4 or 2.

    `with_head`: the head is quantised as well.
    """
    head = holding.head * with_head
    blocks = holding.dense + holding.experts - holding.norms + head
    rest = holding.embedding + holding.head - head + holding.norms
    return blocks * bytes_per_parameter(quant), rest * lift + holding.vision * 2.0


def outlier_bytes(job: PlannedJob, packed: float) -> float:
    """Return the bytes of the outlier columns that bitsandbytes' 8-bit matrices keep in 16 bit as well, 2 for 1 byte.

    Each product extracts the columns for which an input exceeds llm_int8_threshold, and the module keeps them until its
    next product (bitsandbytes, autograd/_functions.py, MatMul8bitLt).
    """
    return 2.0 * job.outlier_share * packed if job.quant == "bnb-int8" else 0.0


def unpacked_matrix_bytes(job: PlannedJob) -> float:
    """Return the bytes of the matrix of a layer that is unpacked to 16 bit while it is used: 2 h f / T.

    Once more, where the unpacked type is not that of the computation.
    """
    return job.framework.unpacked * job.model.hidden * job.model.ffn / job.layout.tp if job.quant else 0.0


def unpacked_head_bytes(job: PlannedJob) -> float:
    """Return the bytes of the unpacked head, 2 h V / T or once more, where the base's head is quantised."""
    packed = bool(job.quant) and job.framework.quantised_head
    return job.framework.unpacked * job.model.hidden * job.model.vocab / job.layout.tp if packed else 0.0

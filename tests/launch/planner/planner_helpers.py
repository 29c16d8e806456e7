"""Jobs of the published configurations that several test files use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from launch.catalogue import devices, frameworks, models
from launch.memory.job import Adapter, Layout, PlannedJob, Precision, Recompute

PADDLE = frameworks.frameworks()["paddle"]
MEGATRON = frameworks.frameworks()["megatron"]
GENERIC = frameworks.frameworks()["generic"]
ASCEND = devices.of_vendor("npu")
ILUVATAR = devices.of_vendor("iluvatar")
A100 = devices.find("A100")


def job(name: str, tp: int = 1, pp: int = 1, cards: int | None = None, **more: Any) -> PlannedJob:
    """An ERNIE job as its recipes have it: 8192 tokens, full recompute, sequence parallel, fp32 gradients."""
    base = PlannedJob(
        model=models.find(name),
        framework=PADDLE,
        device=ASCEND,
        memory_gib=64,
        layout=Layout(tp, pp, cards=cards or tp * pp),
        precision=Precision(2, 4, 4, 8),
        recompute=Recompute("full"),
        seq_len=8192,
        sequence_parallel=tp > 1,
        fused_loss=True,
    )
    return replace(base, **more)


def lora(name: str, tp: int, pp: int, **more: Any) -> PlannedJob:
    return job(name, tp, pp, method="lora", adapter=Adapter(32), **more)

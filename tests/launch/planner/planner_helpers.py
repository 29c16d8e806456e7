"""Jobs of published configurations, used by several test files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from launch.catalogue import devices, frameworks, models
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision, Recompute

PADDLE = frameworks.load_frameworks()["paddle"]
MEGATRON = frameworks.load_frameworks()["megatron"]
GENERIC = frameworks.load_frameworks()["generic"]
ASCEND = devices.find_default_device("npu")
ILUVATAR = devices.find_default_device("iluvatar")
A100 = devices.find_device("A100")


def make_job(name: str, tp: int = 1, pp: int = 1, cards: int | None = None, **more: Any) -> PlannedJob:
    """Return an ERNIE job as in its recipes: 8192 tokens, full recompute, fp32 gradients."""
    base = PlannedJob(
        model=models.find_model(name),
        framework=PADDLE,
        device=ASCEND,
        memory_gib=64,
        layout=ParallelLayout(tp, pp, cards=cards or tp * pp),
        precision=Precision(2, 4, 4, 8),
        recompute=Recompute("full"),
        seq_len=8192,
        fused_loss=True,
    )
    return replace(base, **more)


def make_lora_job(name: str, tp: int, pp: int, **more: Any) -> PlannedJob:
    return make_job(name, tp, pp, method="lora", adapter=Adapter(32), **more)

"""The planner must not reject configurations that vendors publish as the minimum.

ERNIE: PaddlePaddle/ERNIE docs/erniekit.md (training resources) with the YAML files that it names, except rows without
degrees in a file.  ms-swift: the table of its NPU page, LoRA on 910B3 with 64 GB.
"""

from __future__ import annotations

import pytest

from launch import planner
from launch.planner import table_rows

ERNIE = {
    "framework": "ERNIEKit", "weight_dtype": "bf16", "master_weights": "1", "grad_dtype": "fp32", "seq_kind": "packed",
    "micro_batch": "1", "packing": "1", "recompute": "full", "flash_attn": "1", "fused_ce": "1", "seq_parallel": "1",
    "lora_rank": "32", "lora_targets": "all-linear", "sharding": "none", "optimizer": "adamw",
}  # fmt: skip
LOW = "adamw(low precision moments)"
MINIMA = [
    # model, method, cards, GiB, tp, pp, length, what else
    ("ernie-4.5-300b-a47b", "full", 96, 80, 8, 12, 8192, {"offload": "optimizer"}),
    ("ernie-4.5-300b-a47b", "full", 40, 80, 8, 5, 8192, {"offload": "optimizer(tensorwise)", "optimizer": LOW}),
    ("ernie-4.5-300b-a47b", "full", 112, 80, 8, 14, 32768, {"offload": "optimizer"}),
    ("ernie-4.5-300b-a47b", "full", 40, 80, 8, 5, 32768, {"offload": "optimizer(tensorwise)", "optimizer": LOW}),
    ("ernie-4.5-300b-a47b", "full", 128, 64, 8, 16, 8192, {"offload": "optimizer", "device": "Ascend-910B"}),
    ("ernie-4.5-300b-a47b", "full", 112, 96, 8, 14, 8192, {"offload": "optimizer", "device": "Kunlunxin-P800"}),
    ("ernie-4.5-300b-a47b", "full-fp8-qat", 16, 80, 8, 2, 8192,
     {"offload": "optimizer(tensorwise)", "optimizer": LOW, "weight_dtype": "fp8"}),
    ("ernie-4.5-300b-a47b", "lora", 16, 64, 8, 2, 8192, {"offload": "optimizer", "device": "Ascend-910B"}),
    ("ernie-4.5-300b-a47b", "lora", 16, 96, 8, 2, 8192, {"offload": "optimizer", "device": "Kunlunxin-P800"}),
    ("ernie-4.5-300b-a47b", "qlora", 8, 80, 8, 1, 32768, {"offload": "optimizer(tensorwise)", "quant": "wint4/8"}),
    ("ernie-4.5-300b-a47b", "dpo-full", 112, 80, 8, 14, 8192, {"offload": "optimizer"}),
    ("ernie-4.5-300b-a47b", "dpo-full", 112, 80, 8, 14, 32768, {"offload": "optimizer"}),
    ("ernie-4.5-21b-a3b", "full", 8, 80, 2, 1, 8192, {"offload": "optimizer(tensorwise)", "sharding": "paddle-stage1"}),
    ("ernie-4.5-21b-a3b", "full", 8, 80, 4, 1, 131072,
     {"offload": "optimizer(tensorwise)", "sharding": "paddle-stage1"}),
    ("ernie-4.5-21b-a3b", "qlora", 1, 80, 1, 1, 32768, {"offload": "optimizer", "quant": "wint4/8"}),
    ("ernie-4.5-21b-a3b", "dpo-full", 8, 80, 4, 2, 8192, {"offload": "optimizer", "recompute": "none"}),
    ("ernie-4.5-21b-a3b", "dpo-lora", 1, 80, 1, 1, 32768, {"offload": "optimizer"}),
    ("ernie-4.5-21b-a3b", "lora", 16, 32, 4, 4, 8192, {"device": "Iluvatar-BI-V150", "fused_ce": "0"}),
    ("ernie-4.5-0.3b", "dpo-full", 1, 80, 1, 1, 32768, {}),
    ("ernie-4.5-vl-28b-a3b", "full", 8, 80, 4, 2, 8192, {"offload": "optimizer", "fused_ce": "0"}),
    ("ernie-4.5-vl-424b-a47b", "lora", 16, 80, 8, 2, 32768, {"offload": "optimizer(tensorwise)", "fused_ce": "0"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "method", "cards", "gib", "tp", "pp", "length", "more"),
    MINIMA,
    ids=lambda v: str(v) if isinstance(v, str | int) else "",
)
def test_ernies_minima(
    model: str, method: str, cards: int, gib: int, tp: int, pp: int, length: int, more: dict[str, str]
) -> None:
    """No published minimum has the verdict does-not-fit."""
    numbers = {"cards": cards, "device_mem_gib": gib, "tp": tp, "pp": pp, "seq_len": length}
    cells = {key: str(value) for key, value in numbers.items()}
    row = {**ERNIE, "device": "A100", "model": model, "method": method, **cells, **more}

    assert planner.plan(None, table_rows.build_row_job(row)).verdict != "does-not-fit"


SWIFT = [("7b", 1, "none", 28), ("7b", 4, "none", 22), ("7b", 4, "zero2", 28), ("7b", 4, "zero3", 22),
         ("7b", 8, "none", 22), ("14b", 1, "none", 45), ("14b", 8, "none", 51), ("14b", 8, "zero2", 49),
         ("14b", 8, "zero3", 31)]  # fmt: skip


@pytest.mark.parametrize(("size", "cards", "sharding", "gb"), SWIFT)
def test_swifts_table_on_910b3(size: str, cards: int, sharding: str, gb: int) -> None:
    """All nine fit on 64 GiB, and each reading is between the predictions for 256 and 2048 tokens, within 5 GiB.

    The table contradicts itself by as much: the same job is listed with 28 and with 22 GB.
    """
    row = {
        "framework": "ms-swift 1.x torch-npu", "model": f"qwen1.5-{size}", "method": "lora", "lora_rank": "8",
        "lora_targets": "qkv", "weight_dtype": "bf16", "cards": str(cards), "device": "Ascend-910B3",
        "device_mem_gib": "64", "sharding": sharding, "seq_kind": "cap", "micro_batch": "1", "grad_accum": "16",
        "recompute": "full", "flash_attn": "0", "metric": "unspecified",
    }  # fmt: skip
    short, long = (planner.plan(None, table_rows.build_row_job({**row, "seq_len": str(n)})) for n in (256, 2048))
    read = gb * 1e9 / (1 << 30)

    assert long.verdict == "fits"
    assert short.reading_gib - 5 <= read <= long.reading_gib + 5

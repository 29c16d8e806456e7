"""Compare steps of Megatron-core, counted on two real ranks on the CPU, with the planner's phases.

count_megatron.py counts in the torch environment: tensor parallelism, with sequence parallelism, pipelines, also
interleaved ones, experts with as many tokens as every other, and multi-token prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.catalogue import frameworks
from launch.catalogue.architecture import Model, Moe
from launch.memory.phases import list_phases
from launch.memory.planned_job import ParallelLayout, PlannedJob, Precision, Recompute
from tests.launch.memory.rank_runs import count_by_group, count_on_ranks
from tests.launch.planner.planner_helpers import A100

PROGRAM = Path(__file__).with_name("count_megatron.py")
MARGIN = 0.02
PLAIN: dict[str, Any] = {
    "tp": 1, "pp": 1, "sequence": False, "recompute": False, "batches": 2, "batch": 1, "tokens": 128, "layers": 8,
    "hidden": 256, "heads": 8, "kv_heads": 4, "head_dim": 32, "ffn": 704, "vocab": 1024, "gated": True,
    "experts": 0, "active": 2, "expert_ffn": 256, "ep": 1, "predictions": 0, "chunks": 1,
}  # fmt: skip
MIXTURE = {"experts": 8, "ep": 2, "tokens": 512, "layers": 4}
CASES: dict[str, dict[str, Any]] = {
    "tensor": {"tp": 2},
    "tensor and sequence": {"tp": 2, "sequence": True},
    "pipeline": {"pp": 2, "batches": 4},
    "tensor, recomputed": {"tp": 2, "recompute": True},
    "pipeline, recomputed": {"pp": 2, "batches": 4, "recompute": True},
    "pipeline, one micro batch": {"pp": 2, "batches": 1},
    "tensor, more tokens": {"tp": 2, "tokens": 512},
    "tensor and sequence, more tokens": {"tp": 2, "sequence": True, "tokens": 512},
    "tensor, large vocabulary": {"tp": 2, "tokens": 512, "vocab": 8192, "layers": 2},
    "pipeline, more tokens": {"pp": 2, "batches": 4, "tokens": 512},
    "interleaved": {"pp": 2, "batches": 4, "chunks": 2},
    "interleaved, recomputed": {"pp": 2, "batches": 4, "chunks": 2, "recompute": True},
    "interleaved, four chunks": {"pp": 2, "batches": 8, "chunks": 4},
    "experts": MIXTURE,
    "experts, tensor and sequence": {**MIXTURE, "tp": 2, "sequence": True},
    "experts without a gate": {**MIXTURE, "gated": False},
    "experts, four of sixteen": {**MIXTURE, "experts": 16, "active": 4, "expert_ffn": 128},
    "experts, pipeline": {**MIXTURE, "ep": 1, "pp": 2, "batches": 4},
    "experts, recomputed": {**MIXTURE, "recompute": True},
    "experts, tensor and sequence, recomputed": {**MIXTURE, "tp": 2, "sequence": True, "recompute": True},
    "experts, pipeline, recomputed": {**MIXTURE, "ep": 1, "pp": 2, "batches": 4, "recompute": True},
    "experts, prediction": {**MIXTURE, "predictions": 1},
    "prediction": {"tp": 2, "tokens": 512, "layers": 4, "predictions": 1},
    "prediction, sequence": {"tp": 2, "tokens": 512, "layers": 4, "predictions": 1, "sequence": True, "vocab": 4096},
    "prediction, recomputed": {"tp": 2, "tokens": 512, "layers": 4, "predictions": 1, "recompute": True},
    "prediction, pipeline": {"pp": 2, "batches": 4, "layers": 4, "predictions": 1},
}
REAL = ("tensor", "tensor and sequence", "pipeline", "interleaved", "experts", "prediction")
MARKED = [pytest.param(name, marks=[pytest.mark.extended] if name not in REAL else []) for name in CASES]

Count = Callable[[str], tuple[Any, ...]]


@pytest.fixture(scope="module")
def count(torch_environment: Path, megatron: Path, tmp_path_factory: pytest.TempPathFactory) -> Count:
    """Return the function that counts a case on each rank, with the others of its tier."""

    def count_both(group: Sequence[str]) -> list[tuple[Any, ...]]:
        cases, folder = [{**PLAIN, **CASES[name]} for name in group], tmp_path_factory.mktemp("ranks")
        return count_on_ranks(PROGRAM, (torch_environment, megatron), cases, folder, TORCHDYNAMO_DISABLE="1")

    return count_by_group(lambda name: [each for each in CASES if (each in REAL) == (name in REAL)], count_both)


def make_job(case: dict[str, Any]) -> PlannedJob:
    """Return the planner's job for the same step: bf16, gradients, copies and moments in fp32, no data loader."""
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "gated")
    mixture = Moe(case["experts"], case["active"], case["expert_ffn"]) if case["experts"] else None
    sizes = {name: case[name] for name in names}
    return PlannedJob(
        model=Model("counted", **sizes, tied=False, moe=mixture, mtp_layers=case["predictions"]),
        framework=replace(frameworks.load_frameworks()["megatron"], mask_bytes=0.0), device=A100, memory_gib=80,
        layout=ParallelLayout(tp=case["tp"], pp=case["pp"], vpp=case["chunks"], ep=case["ep"], etp=1, cards=2),
        precision=Precision(2, 4, 4, 8),
        recompute=Recompute("full" if case["recompute"] else "none"), sequence_parallel=case["sequence"],
        seq_len=case["tokens"], micro_batch=case["batch"], grad_accum=case["batches"], meter="allocated",
    )  # fmt: skip


def compare_phases(case: dict[str, Any], counted: dict[str, Any], stage: int) -> dict[str, tuple[float, float]]:
    """Return (planned, counted) bytes: after loading, at the peak of forward and backward passes, and of the step."""
    load, forward, backward, step = (phase.total for phase in list_phases(make_job(case), stage)[:4])
    return {
        "load": (load, counted["load"]["end"]),
        "forward and backward": (max(forward, backward), counted["forward and backward"]["peak"]),
        "optimizer step": (step, counted["optimizer step"]["peak"]),
    }


@pytest.mark.parametrize("name", MARKED)
def test_phases(name: str, count: Count) -> None:
    """Loading, forward and backward passes, and the optimizer step are predicted within 2 % on each stage."""
    case = {**PLAIN, **CASES[name]}
    for stage, counted in enumerate(count(name)[:: 2 // case["pp"]]):
        compared = compare_phases(case, counted, stage)
        print(name, stage, *(f"{planned / counted - 1:+.1%}" for planned, counted in compared.values()), sep=" | ")
        for phase, (planned, found) in compared.items():
            assert planned == pytest.approx(found, rel=MARGIN), (stage, phase)

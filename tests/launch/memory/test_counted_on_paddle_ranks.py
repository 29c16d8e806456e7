"""Compare steps of paddle's sharding and pipeline, counted on two real CPU ranks, with the planner's phases."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.catalogue import frameworks
from launch.catalogue.architecture import Model
from launch.memory.group_sharded import count_fullest_entries
from launch.memory.phases import list_phases
from launch.memory.planned_job import ParallelLayout, PlannedJob, Precision, Recompute
from tests.launch.planner.planner_helpers import A100

ROOT = Path(__file__).parents[3]
PROGRAM, PIPELINE = (Path(__file__).with_name(f"count_paddle_{name}.py") for name in ("ranks", "pipeline"))
MARGIN = 0.02
BATCHES = 4
MATRICES = {"segment_size": 1024}  # smaller parameters are not divided: norms
# Of each kind one; with others, what a step, a layer or the head has besides.
FIRST: list[dict[str, Any]] = [
    {"stage": 1},
    {"stage": 1, "configs": {"split_param": True}, "main_grad": True},
    {"stage": 2},
    {"stage": 3, **MATRICES},
]
PIPELINES: list[dict[str, Any]] = [{"recompute": True}, {"batches": 1}, {"vocab": 4096}, {"tokens": 256}]
OTHERS: list[dict[str, Any]] = [
    {"stage": 1, "main_grad": True},
    {"stage": 1, "recompute": True},
    {"stage": 1, "vocab": 4096},
    {"stage": 2, "batches": 2},
    {"stage": 2, "recompute": True},
    {"stage": 2, "main_grad": True},
    {"stage": 2, "buffer_max_size": 65536},
    {"stage": 2, "vocab": 4096},
    {"stage": 3, **MATRICES, "batches": 2},
    {"stage": 3, **MATRICES, "recompute": True},
    {"stage": 3, **MATRICES, "main_grad": True},
    {"stage": 3, **MATRICES, "vocab": 4096},
]
CASE: dict[str, Any] = {
    "layers": 8, "hidden": 256, "heads": 8, "kv_heads": 8, "head_dim": 32, "ffn": 704, "vocab": 1024, "tied": False,
    "bias": False, "batch": 1, "tokens": 128, "rank": 0, "recompute": False, "swiglu": False, "stage": 1,
}  # fmt: skip


def run_ranks(environment: Path, folder: Path, program: Path, case: dict[str, Any]) -> list[dict[str, float]]:
    """Return what both ranks count."""
    (folder / "case.json").write_text(json.dumps(case))
    argv = [str(environment / "bin" / "python"), "-m", "paddle.distributed.launch", "--nproc_per_node", "2"]
    argv += ["--backend", "gloo", "--log_dir", str(folder / "logs"), str(program), str(folder / "case.json")]
    done = subprocess.run(
        [*argv, str(folder)], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def make_sharded_job(case: dict[str, Any]) -> PlannedJob:
    """Return the planner's job for a case of sharding; "main_grad": fp32 gradients, copies and moments."""
    job = make_job()
    framework = replace(job.framework, storage=case.get("buffer_max_size", job.framework.storage))
    return replace(
        job, framework=framework, model=replace(job.model, vocab=case.get("vocab", CASE["vocab"])),
        seq_len=case.get("tokens", CASE["tokens"]), sharding=("dist_opt", "zero2", "zero3")[case["stage"] - 1],
        grad_accum=case.get("batches"),
        precision=Precision(2, 4, 4, 8) if case.get("main_grad") else job.precision,
        recompute=Recompute("full" if case.get("recompute") else "none"),
    )  # fmt: skip


def make_job() -> PlannedJob:
    """Return the planner's job for the same step: bf16, unfused, loop AdamW without temporaries."""
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "tied")
    plain = replace(frameworks.load_frameworks()["paddle-plain"], buffer_gib=0.0)
    return PlannedJob(
        model=Model("counted", **{name: CASE[name] for name in names}), framework=plain, device=A100, memory_gib=80,
        layout=ParallelLayout(cards=2), sharding="dist_opt", precision=Precision(2, 2, 0, 4),
        seq_len=CASE["tokens"], micro_batch=CASE["batch"], flash=False, meter="allocated",
    )  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize("case", [*FIRST, *(pytest.param(case, marks=pytest.mark.extended) for case in OTHERS)])
def test_sharding(case: dict[str, Any], newer_environment: Path, tmp_path: Path) -> None:
    """Each phase of the fullest rank is predicted within 2 % of the allocator's bytes."""
    counted = run_ranks(newer_environment, tmp_path, PROGRAM, {**CASE, **case})
    first = 1 if "configs" in case else 0  # fused gradients exist before the first step, but not while loading
    phases = list_phases(make_sharded_job(case), 0)[first:4]
    planned = {each.name: each.total for each in phases}

    assert planned == pytest.approx({name: max(rank[name] for rank in counted) for name in planned}, rel=MARGIN)


def test_whole_tensors_go_to_the_rank_that_has_least() -> None:
    """The ranks of paddle's stage 2 are as full as four real ones were: the head comes last, to one of them."""
    layer = (3 * 65536, 65536, 2 * 180224, 180224)

    assert count_fullest_entries((262144, 262144, *layer * 8), 4) == pytest.approx(10.88 * 2**20 / 6, rel=0.001)


@pytest.mark.real
@pytest.mark.parametrize("case", [{}, *(pytest.param(case, marks=pytest.mark.extended) for case in PIPELINES)])
def test_pipeline(case: dict[str, Any], newer_environment: Path, tmp_path: Path) -> None:
    """What each stage holds after loading, and at the peak of a step, is predicted within 2 %."""
    given = {"batches": BATCHES, **case}
    counted = run_ranks(newer_environment, tmp_path, PIPELINE, {**CASE, **given})
    job = replace(make_sharded_job({"stage": 1, **given}), layout=ParallelLayout(pp=2, cards=2), sharding="none")
    planned = [[each.total for each in list_phases(job, stage)[:4]] for stage in range(2)]

    assert [phases[0] for phases in planned] == pytest.approx([stage["load"] for stage in counted], rel=MARGIN)
    assert [max(phases) for phases in planned] == pytest.approx([stage["step"] for stage in counted], rel=MARGIN)

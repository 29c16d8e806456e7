"""Compare steps of paddle's sharding and pipeline, counted on two real CPU ranks, with the planner's phases.

Of stage 2 what lasts is compared; stage 3 is not counted.
"""

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
from launch.memory.phases import list_phases
from launch.memory.planned_job import ParallelLayout, PlannedJob, Precision
from tests.launch.planner.planner_helpers import A100

ROOT = Path(__file__).parents[3]
PROGRAM, PIPELINE = (Path(__file__).with_name(f"count_paddle_{name}.py") for name in ("ranks", "pipeline"))
MARGIN = 0.02
BATCHES = 4
CASE: dict[str, Any] = {
    "layers": 8, "hidden": 256, "heads": 8, "kv_heads": 8, "head_dim": 32, "ffn": 704, "vocab": 1024, "tied": False,
    "bias": False, "batch": 1, "tokens": 128, "rank": 0, "recompute": False, "swiglu": False, "stage": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def counted(newer_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Return the bytes of the phases on the first rank."""
    return run_ranks(newer_environment, tmp_path_factory.mktemp("ranks"), PROGRAM, CASE)[0]


@pytest.fixture(scope="module")
def counted_stages(newer_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    """Return the bytes of both stages of a pipeline."""
    case = {**CASE, "batches": BATCHES}
    return run_ranks(newer_environment, tmp_path_factory.mktemp("stages"), PIPELINE, case)


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
@pytest.mark.parametrize("phase", ["load", "forward and loss", "backward", "optimizer step"])
def test_phases_of_stage_1(phase: str, counted: dict[str, float]) -> None:
    """Each phase is predicted within 2 % of the allocator's bytes: moments are divided, weights and gradients not."""
    planned = {each.name: each.total for each in list_phases(make_job(), 0)}

    assert planned[phase] == pytest.approx(counted[phase], rel=MARGIN)


@pytest.mark.extended
def test_states_of_stage_2(newer_environment: Path, tmp_path: Path) -> None:
    """The fullest rank holds what is planned after loading and after a step: its gradients stay, others' are gone."""
    counted = run_ranks(newer_environment, tmp_path, PROGRAM, {**CASE, "stage": 2})
    phases = {each.name: dict(each.terms) for each in list_phases(replace(make_job(), sharding="zero2"), 0)}
    lasting = sum(phases["optimizer step"][name] for name in ("weights", "gradients", "moments"))

    assert sum(phases["load"].values()) == pytest.approx(max(rank["load"] for rank in counted), rel=MARGIN)
    assert lasting == pytest.approx(max(rank["after the step"] for rank in counted), rel=MARGIN)


@pytest.mark.real
@pytest.mark.parametrize("stage", [0, 1])
def test_pipeline(stage: int, counted_stages: list[dict[str, float]]) -> None:
    """What a stage holds after loading, and at the peak of a step with four micro batches, is predicted within 2 %."""
    layout = ParallelLayout(pp=2, cards=2)
    job = replace(make_job(), layout=layout, sharding="none", grad_accum=BATCHES)
    planned = [each.total for each in list_phases(job, stage)[:4]]

    assert planned[0] == pytest.approx(counted_stages[stage]["load"], rel=MARGIN)
    assert max(planned) == pytest.approx(counted_stages[stage]["step"], rel=MARGIN)
